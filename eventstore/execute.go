package eventstore

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Options are the metadata of a command, and the state that the caller knows already. Each aggregate names its own:
//
//	destination.Aggregate.Execute(ctx, store, id, command, destination.Options{Metadata: metadata})
type Options[S any] struct {
	// CommandID names the intention. A command that is executed twice under one id is recorded once, so that a caller
	// who got no answer may simply try again. uuid.Nil is a fresh id.
	CommandID uuid.UUID
	// Metadata is stored with each event.
	Metadata Metadata
	// Known is the instance as the caller knows it. It is tried first, which saves a read. If it turns out to be old,
	// the append is refused and the loop loads for itself. nil: not known.
	Known *Loaded[S]
	// OnlyKnown marks a command as valid for the known state only. If that turns out to be old, Execute fails with
	// ErrWrongRevision.
	OnlyKnown bool
}

// Outcome is the result of a command: the instance afterwards, and its new events.
type Outcome[S, E any] struct {
	Loaded[S]

	Events []E // none if the command asked for the present state
}

const (
	patience   = 5 * time.Second  // with a store that can't be reached: most elections of a new leader end by then
	contention = 20 * time.Second // with other writers of the stream: they take turns, and a busy machine is slow
	firstPause = time.Millisecond
	maxPause   = 250 * time.Millisecond
)

var errNothingKnown = errors.New("eventstore: OnlyKnown without a Known state")

// Execute is the loop through which every decision becomes a fact: load, decide, append, and again after a concurrent
// append. A refusal of the aggregate is returned unchanged. After ErrUnavailable the command may have been recorded:
// execute it again under the same CommandID.
func (a Aggregate[S, E, C]) Execute(
	ctx context.Context, store Store, id uuid.UUID, command C, options Options[S],
) (Outcome[S, E], error) {
	if options.OnlyKnown && options.Known == nil {
		return Outcome[S, E]{}, errNothingKnown
	}
	if options.CommandID == uuid.Nil {
		options.CommandID = uuid.New()
	}
	metadata, err := options.Metadata.encode()
	if err != nil {
		return Outcome[S, E]{}, err
	}
	try := attempt[S, E, C]{
		aggregate: a,
		store:     store,
		stream:    a.Stream(id),
		command:   command,
		commandID: options.CommandID,
		metadata:  metadata,
		known:     options.Known,
	}
	pause, began := firstPause, time.Now()
	for {
		out, err := try.inTurn(ctx)
		// An error ends the loop at once, unless trying again can help; that is so for a limited time.
		limit := time.Duration(0)
		if errors.Is(err, ErrWrongRevision) && options.OnlyKnown && try.uncertain {
			return try.found(ctx, out, err)
		}
		switch {
		case errors.Is(err, ErrWrongRevision) && !options.OnlyKnown: // a concurrent append: decide again, on the new state
			limit, try.contended = contention, true
		case errors.Is(err, ErrFull): // nothing was recorded, and an operator has to make room
		case errors.Is(err, ErrUnavailable): // the append may have got through, which its event ids will show
			limit, try.uncertain = patience, true
		}
		if ctx.Err() != nil || time.Since(began) >= limit {
			return out, err
		}
		// The known state has failed once, so the next try loads. A command that is right for one state only goes on with it:
		// the same events at the same revision are stored once.
		if !options.OnlyKnown {
			try.known = nil
		}
		// Those who met once are kept apart by chance, and wait longer each time.
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(rand.N(2 * pause)): //nolint:gosec // nothing secret depends on this chance
		}
		pause = min(2*pause, maxPause)
	}
}

// attempt is one go of the loop.
type attempt[S, E, C any] struct {
	aggregate Aggregate[S, E, C]
	store     Store
	stream    string
	command   C
	commandID uuid.UUID
	metadata  []byte     // encoded
	known     *Loaded[S] // nil means load first
	contended bool       // an earlier go met another writer on the stream
	uncertain bool       // an earlier go may have been recorded
}

// inTurn makes one go. Where another writer was met on the stream, the writers of this process take turns.
func (t *attempt[S, E, C]) inTurn(ctx context.Context) (Outcome[S, E], error) {
	if t.contended {
		unlock, err := writers.lock(ctx, t.stream)
		if err != nil {
			return Outcome[S, E]{}, err
		}
		defer unlock()
	}
	return t.once(ctx)
}

// found returns the stream if it holds the command's first event, and else the refusal: it may be that of a repetition,
// which a server does not recognize as one if the stream was deleted before.
func (t *attempt[S, E, C]) found(ctx context.Context, out Outcome[S, E], refusal error) (Outcome[S, E], error) {
	loaded, done, err := t.load(ctx)
	switch {
	case err != nil:
		return out, err
	case !done:
		return out, refusal
	}
	return Outcome[S, E]{Loaded: loaded}, nil
}

// load folds the stream, and reports whether it holds the command's first event.
func (t *attempt[S, E, C]) load(ctx context.Context) (loaded Loaded[S], done bool, err error) {
	return t.aggregate.fold(ctx, t.store, t.stream, folding{until: math.MaxInt64, wanted: EventID(t.commandID, 0)})
}

// once loads, unless the state is known, decides, encodes and appends.
func (t *attempt[S, E, C]) once(ctx context.Context) (Outcome[S, E], error) {
	a := t.aggregate
	// Load, unless the state is known. If the stream holds this command's first event, an earlier try got through and its
	// answer was lost: nothing is left to do.
	if t.known == nil {
		loaded, done, err := t.load(ctx)
		if err != nil {
			return Outcome[S, E]{}, err
		}
		if done {
			return Outcome[S, E]{Loaded: loaded}, nil
		}
		t.known = &loaded
	}
	out := Outcome[S, E]{Loaded: *t.known}

	// Decide. Refused commands, and those that ask for the present state, append nothing.
	events, err := a.Decide(out.State, t.command)
	if err != nil || len(events) == 0 {
		return out, err
	}

	// Encode under ids that follow from the command, and fold what the state will be.
	proposed := make([]Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		if err != nil {
			return out, err
		}
		proposed[i] = Proposed{
			ID:       EventID(t.commandID, i),
			Type:     name,
			Data:     data,
			Metadata: t.metadata,
		}
		out.State = a.Evolve(out.State, event)
	}

	// Append at the revision that was decided on: if another event got there first, the store refuses.
	appended, err := t.store.Append(ctx, t.stream, t.known.Revision, proposed)
	if err != nil {
		return out, fmt.Errorf("append to %s: %w", t.stream, err)
	}
	if appended.Position == Start { // nothing was written: the stream had these events before it was deleted
		loaded, _, err := t.load(ctx)
		return Outcome[S, E]{Loaded: loaded}, err
	}
	out.Events, out.Revision, out.Position = events, appended.Revision, appended.Position
	return out, nil
}

// streamLocks serializes the writers of one process that met on a stream. If each of many only retried, all but one
// would load in vain every time. Writers without contention lock nothing; streams share locks by hash.
type streamLocks struct {
	seed  maphash.Seed
	locks [64]chan struct{} // a lock is held while its channel is full
}

var writers = newStreamLocks()

func newStreamLocks() *streamLocks {
	l := &streamLocks{seed: maphash.MakeSeed()}
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits for the lock of a stream, or for the end of the context, whose error it returns.
func (l *streamLocks) lock(ctx context.Context, stream string) (unlock func(), err error) {
	held := l.locks[maphash.String(l.seed, stream)%uint64(len(l.locks))]
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
