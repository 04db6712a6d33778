package eventstore

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// SchemaVersion is written to the metadata of every event; it counts changes of the metadata itself.
const SchemaVersion = 1

// Metadata says for whom, why and by whom an event was recorded. The two $-names are EventStoreDB's own, so that its
// tools can follow a correlation.
type Metadata struct {
	Organization  uuid.UUID `json:"organization,omitzero"`   // whose fact it is; zero for platform-wide facts
	CorrelationID uuid.UUID `json:"$correlationId,omitzero"` // the request or published event that began it all
	CausationID   uuid.UUID `json:"$causationId,omitzero"`   // the event or request that led here directly
	Actor         string    `json:"actor"`                   // "key:<id>", "operator", or a process manager's name
	Reason        string    `json:"reason,omitempty"`        // free text of whoever acted, for auditors
	SchemaVersion int       `json:"schemaVersion"`
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

// metadataRoom is what the encoded metadata takes but for its texts.
const metadataRoom = 256

// encode gives what json.Marshal would. It is written out because it is done for every append, and the way by reflection
// takes five times as long.
func (m Metadata) encode() ([]byte, error) {
	data := append(make([]byte, 0, metadataRoom+len(m.Actor)+len(m.Reason)), '{')
	data = appendReference(data, `"organization":"`, m.Organization)
	data = appendReference(data, `"$correlationId":"`, m.CorrelationID)
	data = appendReference(data, `"$causationId":"`, m.CausationID)
	data, err := jsontext.AppendQuote(append(data, `"actor":`...), m.Actor)
	if err == nil && m.Reason != "" {
		data, err = jsontext.AppendQuote(append(data, `,"reason":`...), m.Reason)
	}
	if err != nil {
		return nil, fmt.Errorf("event metadata: %w", err)
	}
	return append(strconv.AppendInt(append(data, `,"schemaVersion":`...), SchemaVersion, 10), '}'), nil
}

// appendReference appends an id, unless it is zero.
func appendReference(dst []byte, name string, id uuid.UUID) []byte {
	if id == uuid.Nil {
		return dst
	}
	return append(append(append(dst, name...), id.String()...), '"', ',')
}
