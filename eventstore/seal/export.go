package seal

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Format names the form of an export.
const Format = "carillon.export.v2"

// ExportHead is the first line of an export.
type ExportHead struct {
	Format  string         `json:"export"`
	Asked   uuid.UUID      `json:"asked"` // the id of what was asked for
	Head    Head           `json:"head"`
	Streams []ExportStream `json:"streams"`
	// Unsealed counts the events of the streams that are newer than the head, and left out.
	Unsealed    int      `json:"unsealed"`
	Since       uint64   `json:"since,omitempty"`
	Consistency [][]byte `json:"consistency,omitempty"` // proves that the tree of size Since is the beginning
}

// ExportStream is a stream of an export, with the range that the kept leaves have of it.
type ExportStream struct {
	Stream string              `json:"stream"`
	First  eventstore.Revision `json:"first"`
	Last   eventstore.Revision `json:"last"`
	// Linked is a stream of another id, whose first event names the asked one as its member "destination".
	Linked bool `json:"linked,omitempty"`
	// Withheld lists the events that are left out because they belong to other organizations.
	Withheld []eventstore.Revision `json:"withheld,omitempty"`
}

// Missing returns a sentence about each part of the streams that the export lacks.
func (h *ExportHead) Missing() []string {
	all := []string{}
	if h.Unsealed > 0 {
		all = append(all, events(h.Unsealed)+" newer than the tree head, not sealed yet")
	}
	for _, s := range h.Streams {
		if len(s.Withheld) > 0 {
			all = append(all, events(len(s.Withheld))+" of "+s.Stream+", withheld: of other organizations")
		}
		if s.First > 0 {
			all = append(all, fmt.Sprintf("%s before event %d: the tree has none of them", s.Stream, s.First))
		}
	}
	return all
}

func events(n int) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}

// ReadExportHead reads the first line of an export.
func ReadExportHead(line []byte) (*ExportHead, error) {
	var head ExportHead
	if err := strictly(line, &head); err != nil || head.Format != Format {
		return nil, fmt.Errorf("line 1 does not begin an export: it must have \"export\": %q (%w)", Format, err)
	}
	return &head, nil
}

// ExportEvent is an event of an export, as it is stored, with the proof that it is in the tree.
type ExportEvent struct {
	Index    uint64              `json:"index"` // in the order of all events
	Stream   string              `json:"stream"`
	Revision eventstore.Revision `json:"revision"`
	ID       uuid.UUID           `json:"id"`
	Type     string              `json:"type"`
	Data     []byte              `json:"data"`
	Metadata []byte              `json:"metadata"`
	Proof    [][]byte            `json:"proof"`
}

// exportEnd is the last line of an export.
type exportEnd struct {
	Events    int    `json:"events"`
	SHA256    []byte `json:"sha256"` // of all lines before
	Signature []byte `json:"signature"`
}

func (e *exportEnd) text() []byte {
	return fmt.Appendf(nil, "carillon export v2\n%d\n%s\n", e.Events, base64.StdEncoding.EncodeToString(e.SHA256))
}

// ExportWriter writes an export, a JSON object a line.
type ExportWriter struct {
	to     io.Writer
	sum    hash.Hash
	events int
}

// NewExportWriter begins an export.
func NewExportWriter(to io.Writer, head *ExportHead) (*ExportWriter, error) {
	w := &ExportWriter{to: to, sum: sha256.New()}
	head.Format = Format
	err := w.line(head)
	return w, err
}

func (w *ExportWriter) line(value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = io.MultiWriter(w.to, w.sum).Write(append(line, '\n'))
	return err
}

// Event writes an event with its proof.
func (w *ExportWriter) Event(e *eventstore.Recorded, index uint64, proof [][]byte) error {
	w.events++
	return w.line(ExportEvent{
		Index:    index,
		Stream:   e.Stream,
		Revision: e.Revision,
		ID:       e.ID,
		Type:     e.Type,
		Data:     e.Data,
		Metadata: eventstore.CarriedMetadata(e),
		Proof:    proof,
	})
}

// End ends the export with a signature over all of it.
func (w *ExportWriter) End(key ed25519.PrivateKey) error {
	end := exportEnd{Events: w.events, SHA256: w.sum.Sum(nil)}
	end.Signature = ed25519.Sign(key, end.text())
	return w.line(end)
}

// Recorded returns the event.
func (e *ExportEvent) Recorded() *eventstore.Recorded {
	return &eventstore.Recorded{
		ID:       e.ID,
		Stream:   e.Stream,
		Revision: e.Revision,
		Type:     e.Type,
		Data:     e.Data,
		Metadata: e.Metadata,
		Created:  eventstore.FirstCreated(e.Metadata, time.Time{}),
	}
}

// names reports whether the event has an id as its member "destination".
func (e *ExportEvent) names(id uuid.UUID) bool {
	var members map[string]any
	return json.Unmarshal(e.Data, &members) == nil && members["destination"] == id.String()
}

// leaf returns the event's leaf. The metadata is used as it stands, with the time of recording.
func (e *ExportEvent) leaf() Hash { return leafOfExported(e.Recorded()) }

// strictly decodes a line, which must have the members of a value, in their order, and nothing else.
func strictly(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if again, err := json.Marshal(into); err != nil || !bytes.Equal(again, line) {
		return errors.Join(errors.New("it is not written as an export is"), err)
	}
	return nil
}
