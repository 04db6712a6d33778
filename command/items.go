package command

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
)

// maxComment bounds the comment of a feedback, in characters.
const maxComment = 5000

// feedbackWindow is the window of the limit of feedback.
const feedbackWindow = 24 * time.Hour

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
	if err := c.spend(ctx, by.Organization, organization.LimitFeedbackPerDay, feedbackWindow); err != nil {
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
	return resultOf(id, out.Loaded), refused(err)
}
