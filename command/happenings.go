package command

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore"
)

// SplitHappening is an operator's input: the happening that stayed in a merge, or one that was merged into another.
type SplitHappening struct{ Happening uuid.UUID }

// SplitOff is a happening that was split off another one.
type SplitOff struct {
	Happening, From uuid.UUID
	Position        eventstore.Position
}

// SplitHappening undoes what was merged: of one that stayed all that was merged into it, of another its own merge. They
// are never merged again. Splitting again changes nothing.
func (c *Commands) SplitHappening(ctx context.Context, by Caller, in SplitHappening) ([]SplitOff, error) {
	loaded, err := happening.Aggregate.Load(ctx, c.Store, in.Happening)
	if err != nil {
		return nil, err
	}
	state := loaded.State
	if len(state.Tellings) == 0 {
		return nil, &Refusal{Kind: NotFound, Message: "no event has this id: it is the eventId of items"}
	}
	var pairs []SplitOff
	if state.Into != uuid.Nil {
		pairs = append(pairs, SplitOff{Happening: in.Happening, From: state.Into})
	}
	for _, held := range slices.SortedFunc(maps.Keys(state.Holds), compareIDs) {
		pairs = append(pairs, SplitOff{Happening: held, From: in.Happening})
	}
	if len(pairs) == 0 && len(state.Apart) == 0 {
		return nil, &Refusal{Kind: Conflict, Message: "this event is not merged with another one"}
	}
	if len(pairs) == 0 { // a split that was cut off goes on
		for _, other := range slices.SortedFunc(maps.Keys(state.Apart), compareIDs) {
			pairs = append(pairs, SplitOff{Happening: other, From: in.Happening})
		}
	}
	for i := range pairs {
		if pairs[i].Position, err = c.split(ctx, by, pairs[i]); err != nil {
			return nil, err
		}
	}
	return pairs, nil
}

// split records the split in both.
func (c *Commands) split(ctx context.Context, by Caller, pair SplitOff) (eventstore.Position, error) {
	var at eventstore.Position
	for _, part := range []struct {
		of      uuid.UUID
		command happening.Separate
	}{
		{pair.From, happening.Separate{From: pair.Happening, At: c.now()}},
		{pair.Happening, happening.Separate{Into: pair.From, At: c.now()}},
	} {
		out, err := happening.Aggregate.Execute(ctx, c.Store, part.of, part.command, happening.Options{Metadata: by.metadata()})
		if err != nil && !errors.Is(err, happening.ErrNotMerged) {
			return at, err
		}
		if at.Before(out.Position) {
			at = out.Position
		}
	}
	return at, nil
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
