package publication_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/eventstore/aggregatetest"
)

var published = publication.Published{
	Organization: uuid.MustParse("11111111-1111-4111-8111-111111111111"),
	Type:         "news.item.added",
	Source:       "/feeds/news/5",
	Subject:      "item/7",
	Time:         time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	FeedType:     "news",
	FeedID:       uuid.MustParse("22222222-2222-4222-8222-222222222222"),
	Data:         []byte(`{"title":"Storm"}`),
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

// A repeated publication has to be equal, except for its time and the formatting of its data.
func TestPublish_repeated(t *testing.T) {
	t.Parallel()
	noon := published.Time
	published := published
	published.Data = []byte(`{"title":"Storm","tags":["a",1.5],"n":9007199254740993}`)
	tests := map[string]struct {
		change func(*publication.Published)
		want   []string
	}{
		"the same":     {func(*publication.Published) {}, nil},
		"another time": {func(p *publication.Published) { p.Time = noon.Add(time.Hour) }, nil},
		"written anew": {func(p *publication.Published) {
			p.Data = []byte("{\"n\":9007199254740993, \"tags\":[\"\\u0061\",15e-1],\n\"title\":\"Storm\"}")
		}, nil},
		"type":         {func(p *publication.Published) { p.Type = "news.item.updated" }, []string{"type"}},
		"organization": {func(p *publication.Published) { p.Organization = uuid.Nil }, []string{"organizationId"}},
		"source":       {func(p *publication.Published) { p.Source = "/" }, []string{"source"}},
		"subject":      {func(p *publication.Published) { p.Subject = "" }, []string{"subject"}},
		"feed": {func(p *publication.Published) {
			p.FeedType, p.FeedID = "", uuid.Nil
		}, []string{"feedType", "feedId"}},
		"order of items": {func(p *publication.Published) {
			p.Data = []byte(`{"title":"Storm","tags":[1.5,"a"],"n":9007199254740993}`)
		}, []string{"data"}},
		"a large number": {func(p *publication.Published) {
			p.Data = []byte(`{"title":"Storm","tags":["a",1.5],"n":9007199254740992}`)
		}, []string{"data"}},
		"a member more": {func(p *publication.Published) {
			p.Data = []byte(`{"title":"Storm","tags":["a",1.5],"n":9007199254740993,"m":null}`)
		}, []string{"data"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again := published
			tt.change(&again)
			events, err := publication.Aggregate.Decide(publication.State{First: &published},
				publication.Publish{Published: again})
			var differs *publication.DiffersError
			if errors.As(err, &differs) != (tt.want != nil) || differs != nil && !slices.Equal(differs.Members, tt.want) ||
				len(events) > 0 {
				t.Errorf("published again: %v, %v; want differences %v", events, err, tt.want)
			}
		})
	}
}

func TestPublish_withoutReader(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, publication.Aggregate).
		When(publication.Publish{Published: publication.Published{Type: "news.item.added"}}).
		Refused(publication.ErrNobody)
}
