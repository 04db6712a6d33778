package treeheads

import (
	"fmt"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// Kinds of faults.
const (
	Changed   = "changed"   // an event differs from its leaf
	Missing   = "missing"   // an event is gone, and no metadata of its stream says why
	Added     = "added"     // an event stands between those that were sealed, and was not sealed
	Moved     = "moved"     // an event is in another place of the order
	HeadFault = "head"      // a head is forged, changed or missing
	Rewritten = "rewritten" // the log has its own heads, and does not fit one that was kept elsewhere
)

// Fault is a difference between the log and its heads.
type Fault struct {
	Kind     string              `json:"kind"`
	Index    uint64              `json:"index"` // in the order of all events, from 0; of a head its number
	Stream   string              `json:"stream,omitempty"`
	Revision eventstore.Revision `json:"revision"`
	ID       string              `json:"id,omitempty"` // of the event
	Type     string              `json:"type,omitempty"`
	Text     string              `json:"text"`
}

// maxFaults is how many faults are named. All are counted.
const maxFaults = 100

// Shortened is a stream whose metadata hides its beginning, or all of it.
type Shortened struct {
	Stream  string `json:"stream"`
	Setting string `json:"setting"` // as the metadata has it
	Removed uint64 `json:"removed"` // events that are gone, of which the leaves are kept
}

// Report is the outcome of a verification.
type Report struct {
	Events    uint64      `json:"events"`   // equal to their leaves
	Removed   uint64      `json:"removed"`  // gone by their streams' metadata
	Unsealed  uint64      `json:"unsealed"` // after the last head
	Heads     uint64      `json:"heads"`
	Elsewhere uint64      `json:"elsewhere"` // heads kept elsewhere that the log fits
	Last      *seal.Head  `json:"last"`      // nil means the log has no head
	Shortened []Shortened `json:"shortened"`
	// Retired is how many streams of published events, dispatches, deliveries, happenings and items have ended. They are
	// not named.
	Retired uint64  `json:"retired"`
	Faults  []Fault `json:"faults"` // the first ones
	Count   uint64  `json:"count"`  // of all faults
}

// OK reports whether there is no fault.
func (r *Report) OK() bool { return r.Count == 0 }

func (r *Report) fault(f Fault) {
	if r.Count++; len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, f)
	}
}

// ofEvent adds a fault about an event that is in the log.
func (r *Report) ofEvent(kind string, index uint64, e *eventstore.Recorded, text string) {
	r.fault(Fault{
		Kind:     kind,
		Index:    index,
		Stream:   e.Stream,
		Revision: e.Revision,
		ID:       e.ID.String(),
		Type:     e.Type,
		Text:     text,
	})
}

// ofHead adds a fault about a head.
func (r *Report) ofHead(number uint64, format string, args ...any) {
	r.fault(Fault{
		Kind:  HeadFault,
		Index: number,
		Text:  fmt.Sprintf("tree head %d: ", number) + fmt.Sprintf(format, args...),
	})
}
