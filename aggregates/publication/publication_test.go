package publication_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/eventstore/aggregatetest"
)

var published = publication.Published{
	Organization: uuid.MustParse("11111111-1111-4111-8111-111111111111"),
	Type:         "news.item.added", Source: "/feeds/news/5", Subject: "item/7",
	Time:     time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	FeedType: "news", FeedID: uuid.MustParse("22222222-2222-4222-8222-222222222222"),
	Data: []byte(`{"title":"Storm"}`),
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[publication.Event](t, publication.Events, published)
}

func TestPublishOnce(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, publication.Aggregate).
		When(publication.Publish{Published: published}).Then(published).
		When(publication.Publish{Published: published}).Then()
}

func TestSomebodyMustSeeIt(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, publication.Aggregate).
		When(publication.Publish{Published: publication.Published{Type: "news.item.added"}}).
		Refused(publication.ErrNobody)
}
