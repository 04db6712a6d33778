package eventstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Aggregate binds the pure parts of one aggregate to its streams. S is its state, E its events, C its commands.
type Aggregate[S, E, C any] struct {
	Category string // stream category, without "-"
	Codec    Codec[E]
	Evolve   func(S, E) S
	Decide   func(S, C) ([]E, error)
}

// Stream names the stream of one instance.
func (a Aggregate[S, E, C]) Stream(id uuid.UUID) string { return StreamName(a.Category, id) }

// Context says on whose behalf a command runs. CommandID names the intention: executed twice under one id, a command
// is recorded once, so that a caller who got no answer may simply try again.
type Context struct {
	CommandID uuid.UUID
	Metadata  Metadata
}

// NewContext is a context with a fresh command id.
func NewContext(m Metadata) Context { return Context{CommandID: uuid.New(), Metadata: m} }

// Outcome is what a command came to.
type Outcome[S, E any] struct {
	State    S
	Events   []E      // new events; none where the command asked for what already was
	Revision Revision // of the stream afterwards
	Position Position // of its last event: readers at or past it see the outcome
}

// Loaded is an aggregate as its stream tells it.
type Loaded[S any] struct {
	State    S
	Revision Revision
	Position Position
}

const (
	patience   = 3 * time.Second  // with a store that can't be reached
	contention = 20 * time.Second // with others who are faster: they wait in turn, and a busy machine takes its time
	firstPause = time.Millisecond
	maxPause   = 250 * time.Millisecond
)

// Load folds the stream of one instance. An instance that does not exist is the zero state at NoStream.
func Load[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID) (Loaded[S], error) {
	loaded, _, err := load(ctx, store, a, id, uuid.Nil)
	return loaded, err
}

// load also reports whether the event with the id mark is in the stream.
func load[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id, mark uuid.UUID) (loaded Loaded[S], marked bool, err error) {
	loaded.Revision = NoStream
	for recorded, err := range store.Read(ctx, a.Stream(id), 0) {
		if err != nil {
			return loaded, false, fmt.Errorf("load %s: %w", a.Stream(id), err)
		}
		event, err := a.Codec.Decode(&recorded)
		if err != nil {
			return loaded, false, err
		}
		loaded.State = a.Evolve(loaded.State, event)
		loaded.Revision, loaded.Position = recorded.Revision, recorded.Position
		marked = marked || recorded.ID == mark
	}
	return loaded, marked, nil
}

// Execute is the loop: load, decide, append, and again when somebody was faster. A refusal of the aggregate comes back
// as it is. After ErrUnavailable the command may have been recorded: retry it under the same CommandID.
func Execute[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, command C, c Context) (Outcome[S, E], error) {
	return ExecuteAt(ctx, store, a, id, nil, command, c)
}

// ExecuteAt is Execute for a caller who already knows the state: known, where not nil, is tried first, which saves a
// read. If it turns out to be old, the append is refused and the loop loads for itself.
func ExecuteAt[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, known *Loaded[S], command C, c Context) (Outcome[S, E], error) {
	return execute(ctx, store, a, id, known, false, command, c)
}

// ExecuteOn is ExecuteAt for a command that is right for one state only. Where that turns out to be old, it fails with
// ErrWrongRevision.
func ExecuteOn[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, known Loaded[S], command C, c Context) (Outcome[S, E], error) {
	return execute(ctx, store, a, id, &known, true, command, c)
}

func execute[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, known *Loaded[S], only bool, command C, c Context) (Outcome[S, E], error) {
	metadata, err := c.Metadata.encode()
	if err != nil {
		return Outcome[S, E]{}, err
	}
	pause, began, met := firstPause, time.Now(), false
	for {
		out, err := tryInTurn(ctx, store, a, id, known, command, c.CommandID, metadata, met)
		limit := time.Duration(0)
		switch {
		case errors.Is(err, ErrWrongRevision) && !only:
			limit, met = contention, true
		case errors.Is(err, ErrUnavailable):
			limit = patience
		}
		if ctx.Err() != nil || time.Since(began) >= limit {
			return out, err
		}
		if !only {
			known = nil
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(rand.N(2 * pause)): //nolint:gosec // chance only keeps those apart who met once
		}
		pause = min(2*pause, maxPause)
	}
}

// tryInTurn is tryOnce, and after the other writers of this process where the caller has met one on the stream.
func tryInTurn[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, known *Loaded[S], command C, commandID uuid.UUID, metadata []byte, met bool) (Outcome[S, E], error) {
	if met {
		giveBack, err := writers.take(ctx, a.Stream(id))
		if err != nil {
			return Outcome[S, E]{}, err
		}
		defer giveBack()
	}
	return tryOnce(ctx, store, a, id, known, command, commandID, metadata)
}

func tryOnce[S, E, C any](ctx context.Context, store Store, a Aggregate[S, E, C], id uuid.UUID, known *Loaded[S], command C, commandID uuid.UUID, metadata []byte) (Outcome[S, E], error) {
	var done bool
	if known == nil {
		loaded, marked, err := load(ctx, store, a, id, EventID(commandID, 0))
		if err != nil {
			return Outcome[S, E]{}, err
		}
		known, done = &loaded, marked
	}
	out := Outcome[S, E]{State: known.State, Revision: known.Revision, Position: known.Position}
	if done {
		return out, nil // an earlier try of this very command got through, its answer was lost
	}
	events, err := a.Decide(known.State, command)
	if err != nil || len(events) == 0 {
		return out, err
	}
	proposed := make([]Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		if err != nil {
			return out, err
		}
		proposed[i] = Proposed{ID: EventID(commandID, i), Type: name, Data: data, Metadata: metadata}
		out.State = a.Evolve(out.State, event)
	}
	appended, err := store.Append(ctx, a.Stream(id), known.Revision, proposed)
	if err != nil {
		return out, fmt.Errorf("append to %s: %w", a.Stream(id), err)
	}
	out.Events, out.Revision, out.Position = events, appended.Revision, appended.Position
	return out, nil
}

// EventID derives the id of a command's i-th event.
func EventID(commandID uuid.UUID, i int) uuid.UUID {
	return uuid.NewSHA1(commandID, strconv.AppendInt(nil, int64(i), 10))
}
