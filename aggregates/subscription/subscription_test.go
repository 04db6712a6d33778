package subscription_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	org         = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	destination = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	feed        = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	noon        = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	all    = subscription.Settings{ExternalID: "all-news", EventTypes: []string{"news.*"}, ScopeKind: "all"}
	pinned = subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feeds",
		Feeds: []subscription.Pin{{FeedType: "event", FeedID: feed}}}
	created = subscription.Created{
		Organization: org,
		Destination:  destination,
		Settings:     all,
		At:           noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[subscription.Event](t, subscription.Events,
		created, subscription.Revised{Settings: pinned, At: noon}, subscription.Activated{At: noon},
		subscription.Deactivated{Reason: "feed access lost", At: noon}, subscription.Deleted{At: noon},
	)
}

func TestRevise_scopeChange(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, subscription.Aggregate).Of(created, subscription.Revised{Settings: pinned, At: noon}).
		When(subscription.Revise{
			Organization: org,
			Destination:  destination,
			Sets:         subscription.FieldScopeKind,
			Settings:     all,
			At:           noon,
		}).
		Then(subscription.Revised{Settings: subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "all"}, At: noon})
}

// Each setting has a field that copies it alone, and is compared.
func TestFieldsCopyAllSettings(t *testing.T) {
	t.Parallel()
	whole := subscription.Settings{
		ExternalID: "crm",
		EventTypes: []string{"*"},
		ScopeKind:  "some",
		FeedType:   "news",
		Feeds:      pinned.Feeds,
	}
	examples := reflect.ValueOf(whole)
	assert.True(t, subscription.FieldsAll == 1<<examples.NumField()-1, "all fields are %b", subscription.FieldsAll)
	for i := range examples.NumField() {
		name, field := examples.Type().Field(i).Name, subscription.Field(1)<<i
		var none, one subscription.Settings
		assert.True(t, !examples.Field(i).IsZero(), "give %s an example", name)
		reflect.ValueOf(&one).Elem().Field(i).Set(examples.Field(i))
		switch {
		case one.Equal(none):
			t.Errorf("%s is not compared", name)
		case !reflect.DeepEqual(none.With(field, whole), one):
			t.Errorf("%s is not copied alone by its field", name)
		case !none.With(subscription.FieldsAll&^field, one).Equal(none):
			t.Errorf("%s is copied by another field", name)
		}
	}
}

func TestLostAccessAndBack(t *testing.T) {
	t.Parallel()
	on := true
	aggregatetest.Stream(t, subscription.Aggregate).Of(created).
		When(subscription.Deactivate{Reason: "feed access lost", At: noon}).
		Then(subscription.Deactivated{Reason: "feed access lost", At: noon}).
		When(subscription.Revise{
			Organization: org,
			Destination:  destination,
			Active:       &on,
			At:           noon,
		}).
		Then(subscription.Activated{At: noon})
}

func TestValidate(t *testing.T) {
	t.Parallel()
	tests := map[string]subscription.Settings{
		"eventTypes":        {ScopeKind: "all"},
		"eventTypes[1]":     {EventTypes: []string{"*", "news*"}, ScopeKind: "all"},
		"scopeKind":         {EventTypes: []string{"*"}, ScopeKind: "some"},
		"feedType":          {EventTypes: []string{"*"}, ScopeKind: "feed_type"},
		"feeds":             {EventTypes: []string{"*"}, ScopeKind: "all", Feeds: pinned.Feeds},
		"feeds[0].feedType": {EventTypes: []string{"*"}, ScopeKind: "feeds", Feeds: []subscription.Pin{{FeedID: feed}}},
		"feeds[0].feedId":   {EventTypes: []string{"*"}, ScopeKind: "feeds", Feeds: []subscription.Pin{{FeedType: "news"}}},
	}
	for field, settings := range tests {
		t.Run(field, func(t *testing.T) {
			err := settings.Validate()
			invalid, ok := err.(*subscription.InvalidError) //nolint:errorlint // Validate returns it unwrapped
			assert.True(t, ok && invalid.Field == field, "error = %v, want one that names %s", err, field)
		})
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	other := uuid.New()
	tests := []struct {
		name                string
		settings            subscription.Settings
		eventType, feedType string
		feed                uuid.UUID
		want                bool
	}{
		{"wildcard", all, "news.item.added", "news", feed, true},
		{"wildcard of another family", all, "newsletter.sent", "news", feed, false},
		{"event without a feed", all, "news.item.added", "", uuid.Nil, true},
		{"pinned feed", pinned, "event.item.added", "event", feed, true},
		{"feed not pinned", pinned, "event.item.added", "event", other, false},
		{"same id of another kind", pinned, "news.item.added", "news", feed, false},
		{"pinned, no feed", pinned, "factcheck.status.changed", "", uuid.Nil, false},
		{"feed kind", subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feed_type", FeedType: "event"},
			"event.item.added", "event", other, true},
		{"other feed kind", subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feed_type", FeedType: "news"},
			"event.item.added", "event", other, false},
		{"feed kind, no feed", subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feed_type", FeedType: "news"},
			"news.item.added", "news", uuid.Nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.settings.Matches(tt.eventType, tt.feedType, tt.feed), tt.want, "Matches")
		})
	}
}

func TestDeactivate_late(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, subscription.Aggregate).Of(created, subscription.Deactivated{At: noon},
		subscription.Activated{At: noon}).
		When(subscription.Deactivate{Switches: 0, Reason: "feed access lost", At: noon}).Then()
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	on, off, unknown, elsewhere := true, false, subscription.ErrUnknown, uuid.New()
	aggregatetest.Table(t, subscription.Aggregate).
		State("none").
		State("active", created).
		State("inactive", created, subscription.Deactivated{At: noon}).
		State("deleted", created, subscription.Deleted{At: noon}).
		When(subscription.Create{Organization: org, Destination: destination, Settings: all}, "Created", "", "", unknown).
		When(subscription.Revise{Organization: org, Destination: destination}, unknown, "", "", unknown).
		When(subscription.Revise{Organization: org, Destination: destination, Active: &on}, unknown, "", "Activated",
			unknown).
		When(subscription.Revise{Organization: org, Destination: destination, Active: &off}, unknown, "Deactivated", "",
			unknown).
		When(subscription.Revise{Organization: org, Destination: elsewhere}, unknown, unknown, unknown, unknown).
		When(subscription.Deactivate{Switches: 0}, unknown, "Deactivated", "", unknown).
		When(subscription.Deactivate{Switches: 1}, unknown, "", "", unknown).
		When(subscription.Delete{Organization: org, Destination: destination}, unknown, "Deleted", "Deleted", "").
		When(subscription.Delete{Organization: uuid.New(), Destination: destination}, unknown, unknown, unknown, unknown).
		When(subscription.Delete{}, unknown, "Deleted", "Deleted", "") // the platform's
}

// Pins are a set: equal ones are stored once, in the order of their first occurrence.
func TestPinsAreDistinct(t *testing.T) {
	t.Parallel()
	one, two := pinned.Feeds[0], subscription.Pin{FeedType: "news", FeedID: feed}
	given := pinned
	given.Feeds = []subscription.Pin{two, one, two, one}
	for name, decided := range map[string]subscription.State{
		"created": aggregatetest.Stream(t, subscription.Aggregate).
			When(subscription.Create{
				Organization: org,
				Destination:  destination,
				Settings:     given,
				At:           noon,
			}).State(),
		"revised": aggregatetest.Stream(t, subscription.Aggregate).Of(created).
			When(subscription.Revise{
				Organization: org,
				Destination:  destination,
				Sets:         subscription.FieldScopeKind | subscription.FieldFeeds,
				Settings:     given,
				At:           noon,
			}).State(),
	} {
		assert.Alike(t, decided.Settings.Feeds, []subscription.Pin{two, one}, "%s", name)
	}
	assert.Equal(t, given.Size(), 3, "size")
}
