// Package deliverytest has what the tests of delivery share: two organizations, a feed, an endpoint, and the rules of
// process managers about them.
package deliverytest

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

// The actors of the tests, and an event of Alice's feed.
var (
	Noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	Alice = uuid.UUID{1, 1}
	Bob   = uuid.UUID{1, 2}
	News  = uuid.UUID{2, 1}
	Hook  = uuid.UUID{3, 1} // of Alice
	Other = uuid.UUID{3, 2} // of Bob
	Sub   = uuid.UUID{4, 1} // of Hook
	All   = subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "all"}
	Storm = publication.Published{
		Type:     "news.item.added",
		Source:   "/news",
		Subject:  "storm",
		Time:     Noon,
		FeedType: "news",
		FeedID:   News,
		Data:     []byte(`{}`),
	}
)

// Town is the rule of a process manager about what happens in a town.
type Town struct{ *processtest.Rule }

// Debounced returns a revision that sets a debounce window.
func Debounced(seconds int) destination.Revised {
	return destination.Revised{Settings: destination.Settings{
		URL:   "https://example.org",
		Plain: destination.Plain{DebounceWindowSeconds: seconds},
	}}
}

// NoticesTo records an organization's destination for notices.
func (r Town) NoticesTo(organization, id uuid.UUID) {
	processtest.Given(r.Rule, destination.Aggregate, id)(destination.Created{
		Organization: organization,
		Settings:     destination.Settings{URL: "https://example.org", ExternalID: destination.NoticesExternalID},
	})
}

// WithHook makes a town with Alice's endpoint.
func WithHook(t *testing.T, fresh func(eventstore.Store) eventstore.ProcessManager) Town {
	t.Helper()
	r := Town{processtest.Of(t, fresh)}
	processtest.Given(r.Rule, destination.Aggregate, Hook)(destination.Created{Organization: Alice,
		Settings: destination.Settings{URL: "https://example.org"}})
	return r
}

// WithNews makes a town with a news feed of Alice's, and an endpoint of hers that wants everything.
func WithNews(t *testing.T, fresh func(eventstore.Store) eventstore.ProcessManager) Town {
	t.Helper()
	r := WithHook(t, fresh)
	processtest.Given(r.Rule, feed.Aggregate, News)(
		feed.Registered{Organization: Alice, FeedType: "news", Name: "News"})
	processtest.Given(r.Rule, destination.Aggregate, Hook)(destination.SecretMinted{SecretID: uuid.New()})
	processtest.Given(r.Rule, subscription.Aggregate, Sub)(
		subscription.Created{Organization: Alice, Destination: Hook, Settings: All})
	return r
}

// Answers records an attempt of a new delivery to Hook, some minutes after noon; reason is empty for a success.
func (r Town) Answers(minutes, status int, reason delivery.Failure, renumberedFrom int) {
	processtest.Given(r.Rule, delivery.Aggregate, uuid.New())(delivery.Attempted{
		Organization:   Alice,
		Destination:    Hook,
		Number:         1 + renumberedFrom,
		RenumberedFrom: renumberedFrom,
		Trigger:        delivery.Automatic,
		Outcome:        delivery.Outcome{ResponseStatus: status, FailureReason: reason},
		Status:         delivery.StatusFailed,
		At:             Noon.Add(time.Duration(minutes) * time.Minute),
	})
}
