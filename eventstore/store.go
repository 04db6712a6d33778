package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Refusals of a Store.
var (
	// ErrWrongRevision: the stream is not at the expected revision. See *WrongRevisionError.
	ErrWrongRevision = errors.New("wrong expected revision")
	// ErrStreamDeleted: the stream was tombstoned; nothing can be read from it or appended to it.
	ErrStreamDeleted = errors.New("stream deleted")
	// ErrTooLarge: an append is over the store's limit of 1 MiB.
	ErrTooLarge = errors.New("append too large")
	// ErrUnavailable: the store can't be reached or did not answer in time; whether an append took place is unknown.
	ErrUnavailable = errors.New("event store unavailable")
	// ErrFull: the store's disk is full, and nothing was recorded. It is an ErrUnavailable that does not pass soon.
	ErrFull = fmt.Errorf("%w: its disk is full", ErrUnavailable)
	// ErrInvalidPosition: no event or checkpoint of the store has the position. It is one of another store, or of this one
	// before it was restored from an older backup. It is an ErrUnavailable that does not pass.
	ErrInvalidPosition = fmt.Errorf("%w: it has no such position", ErrUnavailable)
	// ErrRefused: the store refuses the program's credentials, or the program the store's certificate. Trying again
	// does not help; an operator must.
	ErrRefused = errors.New("event store can't be used")
)

// WrongRevisionError is the detail of ErrWrongRevision.
type WrongRevisionError struct {
	Stream   string
	Expected Revision
}

// Error names the stream and the expectation.
func (e *WrongRevisionError) Error() string {
	return fmt.Sprintf("stream %s is not at revision %d", e.Stream, e.Expected)
}

// Unwrap makes errors.Is(err, ErrWrongRevision) hold.
func (e *WrongRevisionError) Unwrap() error { return ErrWrongRevision }

// Store is the part of an event store that the program needs.
type Store interface {
	// Append stores all events or none, durably, if the stream is at the expected revision. Repeating an append with
	// the same event ids and the same expectation succeeds and stores nothing new.
	Append(ctx context.Context, stream string, expected Revision, events []Proposed) (Appended, error)

	// Read yields the events of a stream in order, from a revision on. A stream that does not exist yields nothing. The
	// sequence ends after the first error.
	Read(ctx context.Context, stream string, from Revision) iter.Seq2[Recorded, error]

	// Subscribe yields the events after a position, in global order, and continues with later ones. It ends with an error
	// only: that of the context, or ErrUnavailable when the connection broke (see Follow).
	Subscribe(ctx context.Context, after Position, filter Filter) iter.Seq2[Message, error]

	// Head is the position of the newest event, or Start for an empty store.
	Head(ctx context.Context) (Position, error)
}

type unsyncedKey struct{}

// Unsynced lets appends return before they are durable, if the store knows their outcome by then. Others appended
// later are never durable before them, and readers see neither before. It is for what is done again if a crash loses
// it: what follows from an event, and is recorded under ids that follow from it.
func Unsynced(ctx context.Context) context.Context {
	return context.WithValue(ctx, unsyncedKey{}, true)
}

// IsUnsynced reports whether appends may return before they are durable.
func IsUnsynced(ctx context.Context) bool { return ctx.Value(unsyncedKey{}) != nil }

type lingerKey struct{}

// Linger is Unsynced for appends in no hurry: the client of a store elsewhere may hold them back for some milliseconds,
// to send several at once.
func Linger(ctx context.Context) context.Context {
	return context.WithValue(Unsynced(ctx), lingerKey{}, true)
}

// Lingers reports whether appends may be held back.
func Lingers(ctx context.Context) bool { return ctx.Value(lingerKey{}) != nil }

// Filter chooses events by the prefixes of their stream names ("destination-"), on the server. No prefix means all. The
// store's own system events, such as tombstones, are never among them.
type Filter struct{ Prefixes []string }

// Categories is the filter for all streams of some categories.
func Categories(names ...string) Filter {
	f := Filter{Prefixes: make([]string, len(names))}
	for i, name := range names {
		f.Prefixes[i] = name + "-"
	}
	return f
}

// Message is one step of a subscription: an event, or a checkpoint that says how far the server has looked without
// finding one, or the news that the subscriber has caught up with the head.
type Message struct {
	Event    *Recorded // nil for a checkpoint and for caught-up
	Position Position  // resume after this one; zero for caught-up
	CaughtUp bool
}
