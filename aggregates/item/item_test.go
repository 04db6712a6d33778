package item_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/item"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	feed  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	event = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	site  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	voice = uuid.MustParse("55555555-5555-4555-8555-555555555555")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	added = item.Added{
		FeedID:      feed,
		HappeningID: event,
		SourceID:    site,
		Backfill:    true,
		At:          noon,
	}
	removed = item.Removed{
		FeedID:      feed,
		HappeningID: event,
		Reason:      "detached",
		At:          noon,
	}
	feedback = item.FeedbackGiven{
		FeedID:       feed,
		FeedbackID:   voice,
		Organization: org,
		Rating:       item.Positive,
		Comment:      "lovely",
		At:           noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[item.Event](t, item.Events, added, removed, feedback)
}

func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, item.Aggregate).
		When(item.Add(added)).Then(added).
		When(item.Add{
			FeedID:      feed,
			HappeningID: event,
			SourceID:    uuid.New(),
			At:          noon,
		}).Then().
		When(item.Remove{Reason: "detached", At: noon}).Then(removed).
		When(item.Remove{Reason: "deleted", At: noon}).Then().
		When(item.Add(added)).Then(added)
}

func TestFeedbackIsAdditive(t *testing.T) {
	t.Parallel()
	second := item.GiveFeedback(feedback)
	second.FeedbackID, second.Rating = uuid.New(), item.Negative
	aggregatetest.Stream(t, item.Aggregate).Of(added).
		When(item.GiveFeedback(feedback)).Then(feedback).
		When(second).Then(item.FeedbackGiven(second))
}

func TestFeedbackNeedsItem(t *testing.T) {
	t.Parallel()
	elsewhere := item.GiveFeedback(feedback)
	elsewhere.FeedID = uuid.New()
	aggregatetest.Stream(t, item.Aggregate).When(item.GiveFeedback(feedback)).Refused(item.ErrUnknown)
	aggregatetest.Stream(t, item.Aggregate).Of(added, removed).When(item.GiveFeedback(feedback)).Refused(item.ErrUnknown)
	aggregatetest.Stream(t, item.Aggregate).Of(added).When(elsewhere).Refused(item.ErrUnknown)
}

func TestIDDerivation(t *testing.T) {
	t.Parallel()
	id := item.ID(feed, event)
	assert.True(t, id == item.ID(feed, event) && id != item.ID(event, feed) && id != item.ID(feed, site) &&
		id.Version() == 5, "id %s is not that of the pair alone", id)
}
