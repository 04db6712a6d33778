package apitest

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/feeds"
	"carillon/projections/health"
	"carillon/projections/organizations"
	"carillon/projections/publications"
	"carillon/projections/sources"
)

// Limit sets the limits of an organization.
func (p *Fixture) Limit(tb testing.TB, of uuid.UUID, limits organization.Limits) {
	tb.Helper()
	in := command.SetLimits{Organization: of, Limits: limits}
	p.Await(tb, must.Get(p.Commands.SetLimits(tb.Context(), Operator, in))(tb).Position, organizations.ReadModel.Name)
}

// Source registers a page.
func (p *Fixture) Source(tb testing.TB, url, timezone string) uuid.UUID {
	tb.Helper()
	in := command.RegisterSource{Type: "site", URL: url, Timezone: timezone}
	made := must.Get(p.Commands.RegisterSource(tb.Context(), Operator, in))(tb)
	p.Await(tb, made.Position, sources.ReadModel.Name)
	return made.ID
}

// NewsFeed registers a feed of news.
func (p *Fixture) NewsFeed(tb testing.TB, owner uuid.UUID, name string) uuid.UUID {
	tb.Helper()
	in := command.RegisterFeed{FeedType: "news", Organization: owner, Name: name}
	made := must.Get(p.Commands.RegisterFeed(tb.Context(), Operator, in))(tb)
	p.Await(tb, made.Position, feeds.ReadModel.Name, dispatching.Name)
	return made.ID
}

// Share lets an organization read a feed.
func (p *Fixture) Share(tb testing.TB, feedType string, feed, reader uuid.UUID) {
	tb.Helper()
	in := command.ShareFeed{FeedType: feedType, FeedID: feed, Organization: reader}
	made := must.Get(p.Commands.ShareFeed(tb.Context(), Operator, in))(tb)
	p.Await(tb, made.Position, feeds.ReadModel.Name, dispatching.Name)
}

// Publish publishes an event, news if it has no type, and waits until it is dispatched.
func (p *Fixture) Publish(tb testing.TB, in command.Publish) uuid.UUID {
	tb.Helper()
	in.Type, in.Source = cmp.Or(in.Type, "news.item.added"), cmp.Or(in.Source, "/news")
	if in.Data == nil {
		in.Data = []byte(`{"id":"7","title":"Storm"}`)
	}
	made := must.Get(p.Commands.Publish(tb.Context(), Operator, in))(tb)
	p.Await(tb, made.Position, publications.ReadModel.Name, dispatching.Name)
	return made.ID
}

// Attempted completes the record of an attempt at a delivery to a destination of an organization that was answered
// with a status and a body.
func (p *Fixture) Attempted(
	tb testing.TB, of, destination uuid.UUID, status int, body string, as delivery.RecordAttempt,
) delivery.RecordAttempt {
	tb.Helper()
	seal := func(field sealing.Field, text string) []byte {
		return must.Get(p.Commands.Vault.Seal(tb.Context(), destination, field, []byte(text)))(tb)
	}
	as.Organization, as.Destination, as.At = of, destination, time.Now().UTC().Truncate(time.Microsecond)
	as.Outcome = delivery.Outcome{ResponseStatus: status, DurationMicros: 1500}
	if body != "" {
		as.Outcome.ResponseBody = seal(sealing.ResponseBody, body)
	}
	if status >= 300 {
		as.Outcome.FailureReason = "http_status"
		as.Outcome.ErrorMessage = fmt.Sprintf("the endpoint answered %d", status)
		as.Outcome.ResponseHeaders = seal(sealing.ResponseHeaders, "server: nginx\nx-request-id: f00d\n")
	}
	return as
}

// Failed makes deliveries that have failed permanently, one for each of the last seconds.
func (p *Fixture) Failed(tb testing.TB, of, destination uuid.UUID, count int) {
	tb.Helper()
	must.Get(p.Pool.Exec(tb.Context(), `INSERT INTO deliveries.deliveries (id, organization, destination, created_at,
			completed_at, revision, attempts, automatic, event_id, event_time, status, unsuccessful, type, source,
			subscriptions)
		SELECT gen_random_uuid(), $1, $2, now() - i * interval '1 second', now(), 0, 1, 1, gen_random_uuid(), now(),
			'failed', 'failed', 'news.item.added', '/news', '{}' FROM generate_series(1, $3) i`, of, destination, count))(tb)
}

// Happens executes a command on a delivery as the deliverer does, and waits until it can be read.
func (p *Fixture) Happens(tb testing.TB, of, id uuid.UUID, happens delivery.Command) {
	tb.Helper()
	out := must.Get(delivery.Aggregate.Execute(tb.Context(), p.Store, id, happens,
		delivery.Options{Metadata: eventstore.Metadata{Organization: of, Actor: "deliverer"}}))(tb)
	p.Await(tb, out.Position, deliveries.ReadModel.Name, health.ReadModel.Name)
}
