// Package dispatch records the recipients of a published event: one stream for each event, with the whole fan-out in
// one append (or several if it exceeds the size of an append).
package dispatch

import (
	"maps"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// MaxPerEvent limits the deliveries of one stored event: some 250 bytes each, far below the store's 1 MiB.
const MaxPerEvent = 2000

// Event is a stored fact about a dispatch.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// DeliveriesScheduled lists deliveries of one published event, with its summary for readers of deliveries.
type DeliveriesScheduled struct {
	Publication uuid.UUID   `json:"publication"`
	Event       Summary     `json:"event"`
	Deliveries  []Scheduled `json:"deliveries"`
	At          time.Time   `json:"at"`
}

// Summary is a published event without its data.
type Summary struct {
	Type     string    `json:"type"`
	Source   string    `json:"source"`
	Subject  string    `json:"subject,omitempty"`
	Time     time.Time `json:"time"`
	FeedType string    `json:"feedType,omitempty"`
	FeedID   uuid.UUID `json:"feedId,omitzero"`
}

// Scheduled is one delivery. Its id is derived, see DeliveryID.
type Scheduled struct {
	Destination   uuid.UUID   `json:"destination"`
	Organization  uuid.UUID   `json:"organization"`
	Subscriptions []uuid.UUID `json:"subscriptions"`        // those that matched
	NotBefore     time.Time   `json:"notBefore,omitzero"`   // end of the debounce window. Optional
	Supersedes    uuid.UUID   `json:"supersedes,omitzero"`  // the older delivery in that window
	Worker        int32       `json:"worker,omitempty"`     // the deliverer with the first lease …
	LeasedUntil   time.Time   `json:"leasedUntil,omitzero"` // … and its end
}

// State is the state for decisions: the destinations that have their delivery, each with its first lease.
type State struct{ Destinations map[uuid.UUID]Lease }

// Lease assigns a delivery to a worker until a time. The zero value assigns it to none.
type Lease struct {
	Worker int32
	Until  time.Time
}

// Holds reports whether a delivery was recorded with this lease.
func (s State) Holds(d Scheduled) bool {
	lease := s.Destinations[d.Destination]
	return d.Worker != 0 && lease.Worker == d.Worker && lease.Until.Equal(d.LeasedUntil)
}

func (e DeliveriesScheduled) evolve(s State) State {
	all := make(map[uuid.UUID]Lease, len(s.Destinations)+len(e.Deliveries))
	maps.Copy(all, s.Destinations)
	for _, d := range e.Deliveries {
		all[d.Destination] = Lease{Worker: d.Worker, Until: d.LeasedUntil}
	}
	return State{Destinations: all}
}

// deliveries is the namespace of delivery ids.
var deliveries = uuid.MustParse("8f5a1d52-6a0b-5f0e-9a53-0d6f3c1e7b11")

// DeliveryID derives the id of the delivery of an event to a destination, so that there is only one.
func DeliveryID(event, destination uuid.UUID) uuid.UUID {
	var name [32]byte
	copy(name[:16], event[:])
	copy(name[16:], destination[:])
	return uuid.NewSHA1(deliveries, name[:])
}

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Schedule records deliveries. A destination that has its delivery of this event already, by dispatch or by an earlier
// backfill, gets no second one.
type Schedule struct{ DeliveriesScheduled DeliveriesScheduled }

func (c Schedule) decide(s State) ([]Event, error) {
	scheduled := c.DeliveriesScheduled
	scheduled.Deliveries = nil
	for _, d := range c.DeliveriesScheduled.Deliveries {
		if _, has := s.Destinations[d.Destination]; !has {
			scheduled.Deliveries = append(scheduled.Deliveries, d)
		}
	}
	if len(scheduled.Deliveries) == 0 {
		return nil, nil
	}
	return []Event{scheduled}, nil
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, DeliveriesScheduled]("dispatch.deliveries-scheduled.v1"),
)

// Aggregate binds the functions to the streams "dispatch-<uuid of the published event>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "dispatch",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
