package command_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Each text of each use case, from whichever surface: a text that Postgres can't store would stop every reader of the
// event.
func TestUseCasesRefuseUnstorableTexts(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	f.Catalog = must.Get(catalog.New())(t)
	ctx, id := t.Context(), uuid.New()
	// one leaves only the error of a use case.
	one := func(_ any, err error) error { return err }
	settings := func(s destination.Settings) command.DestinationSettings {
		return command.DestinationSettings{Settings: s}
	}
	named := func(name string) command.DestinationSettings {
		return settings(destination.Settings{Name: name, URL: "https://127.0.0.1/"})
	}
	revise := func(in command.DestinationSettings, sets destination.Field) error {
		return one(f.ReviseDestination(ctx, f.by, command.ReviseDestination{ID: id, DestinationSettings: in, Sets: sets}))
	}
	publish := func(in command.Publish) error {
		in.Organization, in.Data = f.org, []byte(`{"id":"n","title":"t"}`)
		return one(f.Publish(ctx, operator, in))
	}
	source := func(in command.RegisterSource) error { return one(f.RegisterSource(ctx, operator, in)) }
	cases := map[string]func(s string) error{
		"destination": func(s string) error {
			return one(f.CreateDestination(ctx, f.by, command.CreateDestination{DestinationSettings: named(s)}))
		},
		"destination renamed": func(s string) error { return revise(named(s), destination.FieldName) },
		"externalId": func(s string) error {
			return revise(settings(destination.Settings{ExternalID: s}), destination.FieldExternalID)
		},
		"URL": func(s string) error {
			return revise(settings(destination.Settings{URL: "https://127.0.0.1/" + s}), destination.FieldURL)
		},
		"header value": func(s string) error {
			return revise(command.DestinationSettings{Headers: map[string]string{"X": s}}, destination.FieldHeaders)
		},
		"header name": func(s string) error {
			return revise(command.DestinationSettings{Headers: map[string]string{s: "x"}}, destination.FieldHeaders)
		},
		"subscribed type": func(s string) error {
			return one(f.CreateSubscription(ctx, f.by, command.CreateSubscription{
				Destination: id, Settings: subscription.Settings{EventTypes: []string{s}, ScopeKind: "all"},
			}))
		},
		"subscription renamed": func(s string) error {
			return one(f.ReviseSubscription(ctx, f.by, command.ReviseSubscription{
				Sets:     subscription.FieldExternalID,
				Settings: subscription.Settings{ExternalID: s},
			}))
		},
		"event source": func(s string) error {
			return publish(command.Publish{Type: "news.item.added", Source: s})
		},
		"event subject": func(s string) error {
			return publish(command.Publish{Type: "news.item.added", Source: "x", Subject: s})
		},
		"event type": func(s string) error { return publish(command.Publish{Type: s, Source: "x"}) },
		"event feed type": func(s string) error {
			return publish(command.Publish{
				Type:     "news.item.added",
				Source:   "x",
				FeedType: s,
				FeedID:   id,
			})
		},
		"organization": func(s string) error {
			return one(f.RegisterOrganization(ctx, operator, command.RegisterOrganization{Name: s}))
		},
		"suspension": func(s string) error {
			return one(f.SuspendOrganization(ctx, operator, command.SuspendOrganization{Organization: f.org, Reason: s}))
		},
		"key": func(s string) error {
			return one(f.IssueKey(ctx, operator, command.IssueKey{Organization: f.org, Name: s}))
		},
		"operator": func(s string) error {
			return one(f.IssueOperatorToken(ctx, operator, command.IssueOperatorToken{Name: s}))
		},
		"object of an action": func(s string) error {
			return f.RecordAction(ctx, operator, command.RecordAction{Action: "renew-keys", Subject: s})
		},
		"auditor": func(s string) error {
			return one(f.IssueAuditorToken(ctx, operator, command.IssueAuditorToken{Name: s}))
		},
		"feed": func(s string) error {
			return one(f.CreateFeed(ctx, f.by, command.CreateFeed{Name: s, Description: "d"}))
		},
		"description": func(s string) error {
			return one(f.CreateFeed(ctx, f.by, command.CreateFeed{Name: "n", Description: s}))
		},
		"feed renamed": func(s string) error {
			return one(f.ReviseFeed(ctx, f.by, command.ReviseFeed{ID: id, Name: &s}))
		},
		"registered feed": func(s string) error {
			return one(f.RegisterFeed(ctx, operator, command.RegisterFeed{FeedType: "news", Organization: f.org, Name: s}))
		},
		"pause": func(s string) error {
			return one(f.PauseSource(ctx, operator, command.PauseSource{Source: id, Reason: s}))
		},
		"handle": func(s string) error { return source(command.RegisterSource{Type: "tiktok", Handle: s}) },
		"source URL": func(s string) error {
			return source(command.RegisterSource{Type: "site", URL: "https://example.org/" + s})
		},
		"time zone": func(s string) error {
			return source(command.RegisterSource{Type: "site", URL: "https://example.org/", Timezone: s})
		},
		"person": func(s string) error { return command.CheckPerson("as", s) },
		"reason": func(s string) error { return command.CheckReason("reason", s) },
		"comment": func(s string) error {
			return one(f.GiveFeedback(ctx, f.by, command.GiveFeedback{
				FeedID:  id,
				ItemID:  id,
				Rating:  "positive",
				Comment: s,
			}))
		},
	}
	lines := []string{
		"destination", "destination renamed", "organization", "suspension", "key", "operator", "auditor", "feed",
		"feed renamed", "registered feed", "pause", "externalId", "subscription renamed", "person", "reason",
	}
	for name, do := range cases {
		texts := map[string]string{"NUL": "a\x00b", "not UTF-8": "a\xffb", "too long": strings.Repeat("x", 300_000)}
		if slices.Contains(lines, name) {
			maps.Copy(texts, map[string]string{"line feed": "a\nb", "C1": "a\u009bb", "direction": "a\u202eb"})
		}
		for kind, text := range texts {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				refusal, ok := errors.AsType[*command.Refusal](do(text))
				assert.True(t, ok && slices.Contains([]command.Kind{command.Malformed, command.Invalid}, refusal.Kind),
					"refusal = %+v", refusal)
			})
		}
	}
}
