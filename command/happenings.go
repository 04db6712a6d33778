package command

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// SplitHappening is an operator's input: the happening that stayed in a merge, or one that was merged into another.
type SplitHappening struct{ Happening uuid.UUID }

// SplitOff is a happening that was split off another one.
type SplitOff struct{ Happening, From uuid.UUID }

// SplitHappening undoes merges: of a remaining happening all that were merged into it, of another its own merge. They
// are never merged again. Splitting again changes nothing.
func (c *Commands) SplitHappening(
	ctx context.Context, by Caller, in SplitHappening,
) (split Result[[]SplitOff], err error) {
	unknown := &Refusal{Kind: NotFound, Message: "no event has this id: it is the eventId of items"}
	loaded, err := happening.Aggregate.Load(ctx, c.Store, in.Happening)
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return split, unknown
	}
	if err != nil {
		return split, err
	}
	state := loaded.State
	if len(state.Sightings) == 0 {
		return split, unknown
	}
	var pairs []SplitOff
	if state.Into != uuid.Nil {
		pairs = append(pairs, SplitOff{Happening: in.Happening, From: state.Into})
	}
	for _, held := range slices.SortedFunc(maps.Keys(state.Holds), compareIDs) {
		pairs = append(pairs, SplitOff{Happening: held, From: in.Happening})
	}
	if len(pairs) == 0 && len(state.Apart) == 0 {
		return split, &Refusal{Kind: Conflict, Message: "this event is not merged with another one"}
	}
	if len(pairs) == 0 { // a split that was cut off goes on
		for _, other := range slices.SortedFunc(maps.Keys(state.Apart), compareIDs) {
			pairs = append(pairs, SplitOff{Happening: other, From: in.Happening})
		}
	}
	action := RecordAction{Action: "split-happening", Subject: in.Happening.String()}
	if err := c.RecordAction(ctx, by, action); err != nil { // events of happenings are no part of the record
		return split, err
	}
	for _, pair := range pairs {
		at, err := Separate(ctx, c.Store, pair.From, pair.Happening, c.now(), by.metadata())
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return split, unknown // retired right now
		}
		if err != nil {
			return split, err
		}
		if split.Position.Before(at) {
			split.Position = at
		}
	}
	split.Value = pairs
	return split, nil
}

// Separate records that a happening is not the one into which it was merged: in that one, in those into which the two
// came since, and in itself. Cut off anywhere, it continues when it is repeated.
func Separate(
	ctx context.Context, store eventstore.Store, from, id uuid.UUID, now time.Time, metadata eventstore.Metadata,
) (at eventstore.Position, err error) {
	goes, err := happening.Aggregate.Load(ctx, store, id)
	if err != nil {
		return at, err
	}
	execute := func(id uuid.UUID, command happening.Separate) (into uuid.UUID, err error) {
		out, err := happening.Aggregate.Execute(ctx, store, id, command, happening.Options{Metadata: metadata})
		if at.Before(out.Position) {
			at = out.Position
		}
		if errors.Is(err, happening.ErrNotMerged) {
			err = nil
		}
		return out.State.Into, err
	}
	separate := happening.Separate{From: id, Members: goes.State.Group(id)[1:], At: now}
	for holder, seen := from, map[uuid.UUID]bool{}; holder != uuid.Nil && !seen[holder]; {
		seen[holder] = true
		if holder, err = execute(holder, separate); err != nil {
			return at, err
		}
	}
	_, err = execute(id, happening.Separate{Into: from, At: now})
	return at, err
}

// HappeningRetired reports whether a happening is retired, or about to be: it is over, with all that it is merged with,
// since before a time.
func HappeningRetired(
	ctx context.Context, store eventstore.Store, id uuid.UUID, before time.Time,
) (retired bool, err error) {
	loaded, err := happening.Aggregate.Load(ctx, store, id)
	for seen := map[uuid.UUID]bool{}; err == nil && loaded.State.Into != uuid.Nil && !seen[id]; {
		seen[id], id = true, loaded.State.Into
		loaded, err = happening.Aggregate.Load(ctx, store, id)
	}
	switch {
	case errors.Is(err, eventstore.ErrStreamDeleted):
		return true, nil
	case err != nil || !loaded.State.Over(before):
		return false, err
	}
	for _, member := range loaded.State.Group(id)[1:] {
		loaded, err := happening.Aggregate.Load(ctx, store, member)
		switch {
		case errors.Is(err, eventstore.ErrStreamDeleted):
		case err != nil || !loaded.State.Over(before):
			return false, err
		}
	}
	return true, nil
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// maxComment bounds the comment of a feedback, in characters.
const maxComment = 5000

// GiveFeedback is an opinion about an item.
type GiveFeedback struct {
	FeedID  uuid.UUID
	ItemID  uuid.UUID
	Rating  string // "positive", "negative", "neutral"
	Comment string // may be empty
}

// GiveFeedback records an opinion about an item of a feed that the caller's organization may read. The result has the
// id of the opinion. There may be many about one item.
func (c *Commands) GiveFeedback(
	ctx context.Context, by Caller, in GiveFeedback,
) (given Result[item.State], err error) {
	if !slices.Contains([]string{item.Positive, item.Negative, item.Neutral}, in.Rating) {
		return given, refuse(Malformed, "rating", "rating must be positive, negative or neutral")
	}
	if err := checkText("comment", in.Comment, maxComment); err != nil {
		return given, err
	}
	of, err := feed.Aggregate.Load(ctx, c.Store, in.FeedID)
	switch {
	case err != nil:
		return given, err
	case of.State.FeedType != feed.TypeEvent || !of.State.VisibleTo(by.Organization):
		return given, refuse(NotFound, "", "feed not found")
	}
	if err := c.checkItem(ctx, in.ItemID); err != nil {
		return given, refused(err)
	}
	if err := c.spend(ctx, by.Organization, organization.LimitFeedbackPerDay, 1); err != nil {
		return given, err
	}
	id := uuid.New()
	out, err := item.Aggregate.Execute(ctx, c.Store, in.ItemID, item.GiveFeedback{
		FeedID:       in.FeedID,
		FeedbackID:   id,
		Organization: by.Organization,
		Rating:       in.Rating,
		Comment:      in.Comment,
		At:           c.now(),
	}, item.Options{Metadata: by.metadata()})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		err = item.ErrUnknown
	}
	return resultOf(id, out.Loaded), refused(err)
}

// checkItem refuses an item that is about to be retired, as if it were unknown: its feedback would be lost.
func (c *Commands) checkItem(ctx context.Context, id uuid.UUID) error {
	if c.RetainHappenings == 0 {
		return nil
	}
	of, err := item.Aggregate.Load(ctx, c.Store, id)
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return item.ErrUnknown
	}
	if err != nil {
		return err
	}
	before := c.now().Add(-c.RetainHappenings)
	retired, err := HappeningRetired(ctx, c.Store, of.State.HappeningID, before)
	if err != nil || !retired {
		return err
	}
	quiet, err := c.History.ItemsQuiet(ctx, of.State.HappeningID, before)
	if err == nil && quiet {
		err = item.ErrUnknown
	}
	return err
}
