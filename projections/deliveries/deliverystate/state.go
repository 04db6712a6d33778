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
