package eventstore

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// SchemaVersion is written to the metadata of every event; it counts changes of the metadata itself.
const SchemaVersion = 1

// Metadata is the organization, reason and actor of an event. The two $-names are EventStoreDB's own, so that its tools
// can follow a correlation.
type Metadata struct {
	Organization  uuid.UUID `json:"organization,omitzero"`   // whose fact it is; zero for platform-wide facts
	CorrelationID uuid.UUID `json:"$correlationId,omitzero"` // the request or published event that began it all
	CausationID   uuid.UUID `json:"$causationId,omitzero"`   // the event or request that led here directly
	Actor         string    `json:"actor"`                   // "key:<id>", "operator", or a process manager's name
	Reason        string    `json:"reason,omitempty"`        // free text of the actor, for auditors
	SchemaVersion int       `json:"schemaVersion"`

	Trace // the span that caused it
}

// Trace names a span as the headers of the W3C do. It is empty if nothing is traced.
type Trace struct {
	Parent string `json:"traceparent,omitempty"`
	State  string `json:"tracestate,omitempty"` // of tracing systems. Optional
}

// ParseMetadata reads the metadata of a recorded event.
func ParseMetadata(data []byte) (Metadata, error) {
	var m Metadata
	if len(data) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("event metadata: %w", err)
	}
	return m, nil
}

// Trace returns the span that caused the event. Most events have none.
func (r *Recorded) Trace() Trace {
	if !bytes.Contains(r.Metadata, []byte(`"traceparent"`)) {
		return Trace{}
	}
	m, err := ParseMetadata(r.Metadata)
	if err != nil {
		return Trace{}
	}
	return m.Trace
}

func (m Metadata) encode() ([]byte, error) {
	m.SchemaVersion = SchemaVersion
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("event metadata: %w", err)
	}
	return data, nil
}

// An actor "console:<name>" is a person at the console, whose login link an operator made.
const (
	personPrefix = "console:"
	makerPrefix  = " (by "
	makerSuffix  = ")"
)

// PersonActor returns the actor of a person. name is as MadeBy returns it.
func PersonActor(name string) string { return personPrefix + name }

// MadeBy returns the name of a person beside the actor who made the login link.
func MadeBy(person, maker string) string { return person + makerPrefix + maker + makerSuffix }

// PersonOf returns the person of an actor without the maker of the login link, and whether the actor is a person.
func PersonOf(actor string) (person string, is bool) {
	person, is = strings.CutPrefix(actor, personPrefix)
	if maker := strings.LastIndex(person, makerPrefix); is && maker > 0 && strings.HasSuffix(person, makerSuffix) {
		person = person[:maker]
	}
	return person, is
}
