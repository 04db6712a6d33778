package eventstore

import (
	"context"
	"fmt"
	"math"

	"github.com/google/uuid"
)

// Aggregate binds the pure parts of one aggregate to its streams. S is its state, E its events, C its commands. Load
// and Execute are what the program does with it.
type Aggregate[S, E, C any] struct {
	Category string // stream category, without "-"
	Codec    Codec[E]
	Evolve   func(S, E) S
	Decide   func(S, C) ([]E, error)
}

// Stream names the stream of one instance.
func (a Aggregate[S, E, C]) Stream(id uuid.UUID) string { return StreamName(a.Category, id) }

// Loaded is an aggregate folded from its stream.
type Loaded[S any] struct {
	State    S
	Revision Revision // of the stream's last event
	Position Position // of the same event: readers at or past it see the state
}

// Load folds the stream of one instance. An instance that does not exist is the zero state at NoStream.
func (a Aggregate[S, E, C]) Load(ctx context.Context, store Store, id uuid.UUID) (Loaded[S], error) {
	loaded, _, err := a.fold(ctx, store, a.Stream(id), folding{until: math.MaxInt64})
	return loaded, err
}

// LoadAt folds the stream up to a revision: the instance as it was then.
func (a Aggregate[S, E, C]) LoadAt(ctx context.Context, store Store, id uuid.UUID, until Revision) (Loaded[S], error) {
	loaded, _, err := a.fold(ctx, store, a.Stream(id), folding{until: until})
	return loaded, err
}

// folding limits a fold, and names the event to look for.
type folding struct {
	until  Revision
	wanted uuid.UUID
}

// fold also reports whether the stream holds the event that is looked for.
func (a Aggregate[S, E, C]) fold(
	ctx context.Context, store Store, stream string, as folding,
) (loaded Loaded[S], found bool, err error) {
	loaded.Revision = NoStream
	for recorded, err := range store.Read(ctx, stream, 0) {
		if err != nil {
			return loaded, false, fmt.Errorf("load %s: %w", stream, err)
		}
		if recorded.Revision > as.until {
			break
		}
		event, err := a.Codec.Decode(&recorded)
		if err != nil {
			return loaded, false, err
		}
		loaded.State = a.Evolve(loaded.State, event)
		loaded.Revision, loaded.Position = recorded.Revision, recorded.Position
		found = found || recorded.ID == as.wanted
	}
	return loaded, found, nil
}
