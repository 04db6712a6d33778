package persistent

import (
	"context"
	"time"

	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

// Event is an event on its way to a consumer.
type Event struct {
	// ID is how consumers name the event when they answer.
	ID store.EventID
	// Next is the cursor behind the event. A cursor is a place in the source: what comes next is read from there. In
	// a stream it is the next revision, in $all the last position.
	Next uint64
	// Pin decides which consumer gets the event, where the strategy pins.
	Pin string
	// Size is what the event takes in memory, in bytes.
	Size int
	// Content is what is sent.
	Content wire.Event
}

// Rejected is an event to be set aside, and why.
type Rejected struct {
	Event  Event
	Reason string
}

// Why events are set aside.
const (
	onDemand = "Client explicitly NAK'ed message.\n"
	tooOften = "Reached retry count of %d"
)

// Backing is where a group's events come from and where its state is kept.
type Backing interface {
	// Read returns up to limit events from a cursor on, and the cursor behind what was looked at; that is the same
	// cursor where there is nothing more for now.
	Read(ctx context.Context, cursor uint64, limit int) (events []Event, next uint64, err error)
	// Changed returns a channel that is closed when Read may find more. Take it before reading.
	Changed() <-chan struct{}
	// End is the cursor behind the last event.
	End(ctx context.Context) (uint64, error)
	// SaveCheckpoint makes a cursor durable.
	SaveCheckpoint(ctx context.Context, cursor uint64) error
	// Park sets events aside, in this order, all or none.
	Park(ctx context.Context, rejected []Rejected) error
	// Parked is the range of what is set aside: from first up to but without end.
	Parked(ctx context.Context) (first, end uint64, err error)
	// ReadParked returns up to limit of the events set aside from a place on, with Next the place behind each.
	ReadParked(ctx context.Context, from, end uint64, limit int) (events []Event, next uint64, err error)
	// DropParked forgets what was set aside before a place.
	DropParked(ctx context.Context, before uint64) error
	// Close ends the use of the backing.
	Close()
}

// message is an event with its history in the group.
type message struct {
	event   Event
	before  uint64 // cursor at which the event was read
	order   uint64 // of reading
	retries int32
	replay  bool // read from what was parked
	live    bool // read once the group had caught up
	done    bool

	consumer *Consumer // while in flight
	sent     time.Time
	deadline time.Time
	next     *message // in flight to the same consumer, with the same id
}
