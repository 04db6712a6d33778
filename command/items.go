package command

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
	"carillon/eventstore"
)

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
