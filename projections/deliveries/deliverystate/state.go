// Package deliverystate names the states of a delivery as people and programs are shown them. Rows, pages, counts of
// an event, the CLI, analytics and metrics take a state from Of, and their conditions in SQL from Set.SQL; both are
// made from one table.
package deliverystate

import (
	"slices"
	"strings"
)

// State is the shown state of a delivery.
type State string

// Every delivery is in one of these states.
const (
	Waiting    State = "waiting"  // not tried yet: due, debounced, or held back by its destination or organization
	Retrying   State = "retrying" // an attempt failed, and the next one is planned
	Delivering State = "delivering"
	Succeeded  State = "succeeded"
	Failed     State = "failed"
	Superseded State = "superseded"
	Discarded  State = "discarded"
)

// Failing names the states whose last attempt failed.
const Failing = "failing"

// Pending is the stored status of a delivery that has not ended.
const Pending = "pending"

// rule says which deliveries are in a state. No delivery matches two rules.
type rule struct {
	State
	status    string // of the API
	stored    string
	held      *bool // whether a worker sends it; nil means either
	attempted *bool // nil means either
}

var rules = []rule{
	pending(Waiting, Pending, new(false), new(false)),
	pending(Retrying, Pending, new(false), new(true)),
	pending(Delivering, string(Delivering), new(true), nil),
	ended(Succeeded),
	ended(Failed),
	ended(Superseded),
	ended(Discarded),
}

func pending(state State, status string, held, attempted *bool) rule {
	return rule{state, status, Pending, held, attempted}
}

func ended(state State) rule { return rule{State: state, status: string(state), stored: string(state)} }

// States lists all states in the order in which counts show them.
func States() []State {
	all := make([]State, len(rules))
	for i, r := range rules {
		all[i] = r.State
	}
	return all
}

// Of returns the state of a delivery by its stored status, whether a worker holds it, and its number of attempts.
func Of(stored string, held bool, attempts int) State {
	for _, r := range rules {
		if r.stored == stored && is(r.held, held) && is(r.attempted, attempts > 0) {
			return r.State
		}
	}
	return State(stored)
}

func is(wanted *bool, value bool) bool { return wanted == nil || *wanted == value }

// Status returns the status that the API has for a state.
func (s State) Status() string {
	for _, r := range rules {
		if r.State == s {
			return r.status
		}
	}
	return string(s)
}

// Live reports whether a delivery in this state has not ended.
func (s State) Live() bool { return live.Has(s) }

// Set is a choice of states. The zero Set is all of them.
type Set uint16

// SetOf returns the set of some states.
func SetOf(states ...State) (set Set) {
	for i, r := range rules {
		if slices.Contains(states, r.State) {
			set |= 1 << i
		}
	}
	return set
}

var live = func() (set Set) {
	for i, r := range rules {
		if r.stored == Pending {
			set |= 1 << i
		}
	}
	return set
}()

// names maps each name of a filter to its states: a status of the API, a state, or Failing.
var names = func() map[string]Set {
	all := map[string]Set{Failing: SetOf(Retrying, Failed)}
	for i, r := range rules {
		all[r.status] |= 1 << i
		all[string(r.State)] |= 1 << i
	}
	return all
}()

// Statuses lists the statuses of the API.
func Statuses() (all []string) {
	for _, r := range rules {
		if !slices.Contains(all, r.status) {
			all = append(all, r.status)
		}
	}
	return all
}

// Names lists what a filter can name: the statuses of the API, then the others.
func Names() []string {
	all := append(Statuses(), string(Waiting), string(Retrying))
	return append(all, Failing)
}

// Named returns the states that names separated by commas choose, and false if one of them is unknown. No text chooses
// all states.
func Named(text string) (set Set, known bool) {
	if text == "" {
		return 0, true
	}
	for name := range strings.SplitSeq(text, ",") {
		some, known := names[strings.TrimSpace(name)]
		if !known {
			return 0, false
		}
		set |= some
	}
	return set, true
}

// Has reports whether a state is in the set.
func (s Set) Has(state State) bool { return s == 0 || s&SetOf(state) != 0 }

// All returns the states of the set.
func (s Set) All() []State { return s.states(^Set(0)) }

// Live returns the states of the set in which a delivery has not ended.
func (s Set) Live() []State { return s.states(live) }

// Ended returns the states of the set in which a delivery has ended.
func (s Set) Ended() []State { return s.states(^live) }

func (s Set) states(of Set) (some []State) {
	for i, r := range rules {
		if of&(1<<i) != 0 && s.Has(r.State) {
			some = append(some, r.State)
		}
	}
	return some
}

// Held returns the condition on a row u of due that a worker holds it at a time. It is written like an index of due.
func Held(now string) string { return "u.worker IS NOT NULL AND u.available_at > " + now }

// Free is the condition on a row u of due that its delivery waits for an attempt of its schedule. It is written like an
// index of due.
const Free = "u.worker IS NULL AND u.replay IS NULL"

// Retryable returns the condition on a row u of due that a retry makes its delivery due earlier, at a time.
func Retryable(now string) string {
	return Free + " AND u.available_at > " + now + " AND u.due_at > " + now
}

// Conditions on a row d of deliveries.
var (
	// Replayable is true if it failed permanently, and no replay is pending.
	Replayable = Failed.SQL("") + " AND d.replay IS NULL"
	// Retried is true if it has not ended, and an attempt failed. The next one may be in flight.
	Retried = "d.unsuccessful = '" + string(Retrying) + "'"
)

// SQL returns the condition that a row d of deliveries is in a state of the set. held is the condition that a worker
// holds the delivery; it is not used by a set without states of pending deliveries, or with all of them. The column
// unsuccessful has an index.
func (s Set) SQL(held string) string {
	if s == 0 {
		return "true"
	}
	waits, retried, sent := s.Has(Waiting), s.Has(Retrying), s.Has(Delivering)
	var conditions, unsuccessful []string
	isSent := "d.status = 'pending' AND " + held
	switch {
	case waits && retried:
		conditions = append(conditions, "d.status = 'pending'")
	case waits:
		conditions = append(conditions, "d.status = 'pending' AND d.unsuccessful IS NULL")
	case retried:
		unsuccessful = append(unsuccessful, string(Retrying))
		if !sent {
			isSent = Retried + " AND " + held
		}
	}
	for _, state := range s.Ended() {
		if state == Succeeded {
			conditions = append(conditions, "d.status = 'succeeded'")
			continue
		}
		unsuccessful = append(unsuccessful, string(state))
	}
	if len(unsuccessful) > 0 {
		conditions = append(conditions, "d.unsuccessful IN ('"+strings.Join(unsuccessful, "', '")+"')")
	}
	if sent && (!waits || !retried) {
		conditions = append(conditions, isSent)
	}
	sql := "(" + strings.Join(conditions, " OR ") + ")"
	if !sent && (waits || retried) {
		return "(" + sql + " AND NOT (" + isSent + "))"
	}
	return sql
}

// SQL returns the same condition for one state.
func (s State) SQL(held string) string { return SetOf(s).SQL(held) }
