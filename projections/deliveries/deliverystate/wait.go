package deliverystate

import "time"

// Reason names the condition on which a delivery waits.
type Reason string

// The reasons, in the order in which they bind.
const (
	Suspended   Reason = "organization_suspended"
	Disabled    Reason = "destination_disabled"
	Resting     Reason = "destination_rests" // the receiver asked for that by Retry-After
	Debounced   Reason = "debounce"          // a newer event would take its place
	NextAttempt Reason = "retry"
	Turn        Reason = "turn" // it is due: others are sent before
)

var reasons = []struct {
	Reason
	words string
}{
	{Suspended, "its organization is suspended"},
	{Disabled, "its destination is disabled"},
	{Resting, "its receiver asked for a rest (Retry-After)"},
	{Debounced, "the end of its debounce window"},
	{NextAttempt, "its next attempt"},
	{Turn, "its turn: it is due"},
}

// Reasons lists all reasons.
func Reasons() (all []Reason) {
	for _, r := range reasons {
		all = append(all, r.Reason)
	}
	return all
}

// Words returns the reason in words; one of another version as it is sent.
func (r Reason) Words() string {
	for _, known := range reasons {
		if known.Reason == r {
			return known.words
		}
	}
	return string(r)
}

// Wait says what a delivery waits for. The zero Wait is that of one that does not wait.
type Wait struct {
	For   Reason
	Until time.Time // zero if no time is known
}

// Facts are what a Wait follows from.
type Facts struct {
	State       State
	Held        bool // by a worker that sends it, or a replay of it
	Attempts    int
	DueAt       *time.Time // of the next attempt, or of a replay; nil if none is to be made
	RestsUntil  *time.Time // of the destination. Optional.
	Destination string     // its status
	Suspended   bool       // its organization
	Now         time.Time
}

// WaitOf returns what a delivery waits for. A replay is sent to a disabled destination, too.
func WaitOf(f Facts) Wait {
	if f.DueAt == nil || f.Held {
		return Wait{}
	}
	at := *f.DueAt
	switch {
	case f.Suspended:
		return Wait{For: Suspended}
	case f.State.Live() && f.Destination != "enabled":
		return Wait{For: Disabled}
	case f.RestsUntil != nil && f.RestsUntil.After(f.Now) && !f.RestsUntil.Before(at):
		return Wait{For: Resting, Until: *f.RestsUntil}
	case !at.After(f.Now):
		return Wait{For: Turn, Until: at}
	case f.Attempts == 0:
		return Wait{For: Debounced, Until: at}
	}
	return Wait{For: NextAttempt, Until: at}
}
