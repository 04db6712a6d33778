package treeheads

import (
	"fmt"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// Kinds of faults.
const (
	Changed   = "changed"   // an event differs from its leaf
	Missing   = "missing"   // an event is gone, and nothing in the store says why
	Cut       = "cut"       // a stream was ended, deleted or shortened by another client of the store
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

// Report is the outcome of a verification.
type Report struct {
	Events    uint64     `json:"events"`   // equal to their leaves
	Removed   uint64     `json:"removed"`  // gone with streams that were retired
	Unsealed  uint64     `json:"unsealed"` // after the last head
	Heads     uint64     `json:"heads"`
	Elsewhere uint64     `json:"elsewhere"` // heads kept elsewhere that the log fits
	Last      *seal.Head `json:"last"`      // nil means the log has no head
	// Retired is how many streams have ended that sealed retirements name.
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
