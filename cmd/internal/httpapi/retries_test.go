package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func retryOf(id string) request {
	return request{method: http.MethodPost, path: "/events/deliveries/" + id + "/retry"}
}

// waiting makes a delivery that failed, and waits for its retry.
func (s *server) waiting(t *testing.T, destination string) string {
	t.Helper()
	id := s.delivery(t, destination)
	s.happens(t, id, s.attempt(t, destination, 1, 503, ""))
	return id
}

// failedOne makes a delivery that failed permanently.
func (s *server) failedOne(t *testing.T, destination string, in command.Publish) string {
	t.Helper()
	id := s.published(t, destination, in)
	gone := s.attempt(t, destination, 1, 410, "")
	gone.Retry.Never = true
	s.happens(t, id, gone)
	return id
}

// exec changes a row that no use case changes.
func (s *server) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	must.Get(s.Pool.Exec(t.Context(), sql, args...))(t)
}

const markSent = "UPDATE deliveries.due SET worker = 1, available_at = now() + interval '1 hour' WHERE id = $1"

func TestRetryMakesWaitingDueNow(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	id := s.waiting(t, crm.ID)
	before := time.Now().Add(-time.Second)
	because := retryOf(id)
	because.header = map[string]string{wire.ReasonHeader: "receiver repaired"}
	retried := into[httpapi.Retry](t, 202, s.do(t, because))
	at := retried.NextAttemptAt
	assert.True(t, retried.DeliveryID.String() == id && !at.Before(before) && !at.After(time.Now()),
		"retry = %+v", retried)
	if d := s.detail(t, id); d.Status != "pending" || !d.NextAttemptAt.Equal(at) {
		t.Errorf("afterwards: %s, next at %s", d.Status, d.NextAttemptAt)
	}
	const n = 10
	assert.Equal(t, s.concurrently(t, n, func(int) request { return retryOf(id) })[http.StatusAccepted], n,
		"asked again")
	requests := 0
	for recorded, err := range s.Store.Read(t.Context(), "delivery-"+id, 0) {
		meta, bad := eventstore.ParseMetadata(recorded.Metadata)
		must.True(t, err == nil && bad == nil, "%v %v", err, bad)
		if recorded.Type == "delivery.retry-requested.v1" {
			requests++
			assert.True(t, meta.Reason == "receiver repaired" && meta.Actor != "",
				"by %q because of %q", meta.Actor, meta.Reason)
		}
	}
	assert.Equal(t, requests, 1, "recorded … times")
	s.happens(t, id, s.attempt(t, crm.ID, 2, 204, ""))
	if d := s.detail(t, id); d.Status != "succeeded" || d.Attempts[1].Trigger != "automatic" {
		t.Errorf("at the end: %+v", d)
	}
}

// A rest or a limit of the whole destination holds for a retry as well.
func TestRetry_heldByReceiver(t *testing.T) {
	s := serve(t)
	for name, hold := range map[string]string{
		"Retry-After": "INSERT INTO carillon.resting VALUES ($1::uuid, $2, now())",
		"limit": "INSERT INTO carillon.hosts (name, next_at, rest_until) VALUES ('destination/' || $1::text, $2, " +
			"'-infinity')",
	} {
		crm := s.subscribed(t, "crm-"+name)
		id := s.waiting(t, crm.ID)
		until := time.Now().UTC().Add(10 * time.Minute).Truncate(time.Microsecond)
		s.exec(t, hold, crm.ID, until)
		for range 2 {
			retried := into[httpapi.Retry](t, 202, s.do(t, retryOf(id)))
			assert.True(t, retried.NextAttemptAt.Equal(until),
				"%s: next attempt at %s, want %s", name, retried.NextAttemptAt, until)
		}
	}
}

func TestRetryIsRefused(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	s.do(t, retryOf(uuid.NewString())).refused(t, 404, "NOT_FOUND", "delivery not found")
	ended := s.failedOne(t, crm.ID, command.Publish{})
	s.do(t, retryOf(ended)).refused(t, 409, "CONFLICT", "/replay sends it again")
	sent := s.waiting(t, crm.ID)
	s.exec(t, markSent, sent)
	s.do(t, retryOf(sent)).refused(t, 409, "CONFLICT", "is being sent, or is next in line")
	id := s.waiting(t, crm.ID)
	s.post(t, "/events/deliveries/"+id+"/replay", "").refused(t, 409, "ALREADY_EXISTS", "/retry")
	s.patch(t, destinationsPath+"/crm", `{"status":"disabled"}`).into(t, 200, new(any))
	s.do(t, retryOf(id)).refused(t, 409, "CONFLICT", `"status": "enabled"`)
	d := s.detail(t, id)
	assert.True(t, !d.NextAttemptAt.Before(time.Now().Add(time.Minute)), "refused, and due at %s", d.NextAttemptAt)
}

func (s *server) recovers(t *testing.T, body string, want httpapi.Recovery) {
	t.Helper()
	got := into[httpapi.Recovery](t, 202, s.post(t, destinationsPath+"/crm/recover", body))
	assert.Equal(t, got, want, "recover %s", body)
}

func TestRecoverSendsWhatHasNotArrived(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	failed := s.failedOne(t, crm.ID, command.Publish{Type: "factcheck.status.changed", Data: factcheck})
	feed := s.NewsFeed(t, s.org, "City")
	s.failedOne(t, crm.ID, command.Publish{FeedType: "news", FeedID: feed})
	s.endFeed(t, feed) // replays of its events are refused
	arrived, superseded, sent := s.delivery(t, crm.ID), s.delivery(t, crm.ID), s.waiting(t, crm.ID)
	s.happens(t, arrived, s.attempt(t, crm.ID, 1, 204, ""))
	s.happens(t, superseded, delivery.Supersede{By: uuid.New(), At: time.Now().UTC()})
	s.exec(t, markSent, sent)
	s.delivery(t, crm.ID) // is due
	waits := s.waiting(t, crm.ID)
	s.patch(t, destinationsPath+"/crm", `{"debounceWindowSeconds":3600}`).into(t, 200, new(any))
	debounced := s.delivery(t, crm.ID)

	hourAgo := `"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `"`
	longAgo := `"` + time.Now().AddDate(0, 0, -27).UTC().Format(time.RFC3339) + `"`
	for body, want := range map[string]httpapi.Recovery{
		`{"dryRun":true}`: {2, 1},
		`{"dryRun":true,"since":` + hourAgo + `,"types":["*"]}`:               {2, 1},
		`{"dryRun":true,"until":` + hourAgo + `}`:                             {},
		`{"dryRun":true,"until":` + longAgo + `}`:                             {},
		`{"dryRun":true,"types":["news.*"]}`:                                  {2, 0},
		`{"dryRun":true,"types":["no.such.type","factcheck.status.changed"]}`: {0, 1},
	} {
		s.recovers(t, body, want)
	}
	s.recovers(t, "", httpapi.Recovery{2, 1})
	s.recovers(t, "{}", httpapi.Recovery{}) // again
	for id, want := range map[string]string{
		waits: "delivery.retry-requested.v1", debounced: "delivery.retry-requested.v1",
		failed: "delivery.replay-requested.v1",
	} {
		if got := s.EventTypes(t, "delivery-"+id); got[len(got)-1] != want {
			t.Errorf("events = %v, want %s at last", got, want)
		}
	}
	d := s.detail(t, debounced)
	assert.True(t, !d.NextAttemptAt.After(time.Now()), "what was debounced is due at %s", d.NextAttemptAt)
}

func TestRecoverIsRefused(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	failed := s.failedOne(t, crm.ID, command.Publish{})
	recovery := func(body string) response {
		return s.post(t, destinationsPath+"/crm/recover", body)
	}
	day := func(n int) string { return `"` + time.Now().AddDate(0, 0, n).UTC().Format(time.RFC3339) + `"` }
	for body, message := range map[string]string{
		`{"since":` + day(1) + `}`:                          "since must not be in the future",
		`{"since":` + day(-1) + `,"until":` + day(-2) + `}`: "until must not be before since",
		`{"since":` + day(-31) + `}`:                        "since must be at most 30 days ago",
		`{"until":` + day(-31) + `}`:                        "until must be at most 30 days ago",
		`{"since":"yesterday"}`:                             "since must be an ISO 8601 time",
		`{"types":[]}`:                                      "types must have 1 to 100 entries",
		`{"types":["*","news*"]}`:                           "types[1] must be an exact type",
		`{"limit":1}`:                                       "limit",
	} {
		recovery(body).refused(t, 400, "INVALID_BODY", message)
	}
	s.limit(t, organization.Limits{organization.LimitRedeliveries: 0})
	recovery("").refused(t, 409, "CONFLICT", "limit redeliveries: ")
	s.patch(t, destinationsPath+"/crm", `{"status":"disabled"}`).into(t, 200, new(any))
	recovery("").refused(t, 409, "CONFLICT", `"status": "enabled"`)
	s.recovers(t, `{"dryRun":true}`, httpapi.Recovery{0, 1})
	assert.Equal(t, len(s.EventTypes(t, "delivery-"+failed)), 1, "events")
}

func TestRecoverOverTheCap(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	s.Failed(t, s.org, uuid.MustParse(crm.ID), 10_001)
	for _, body := range []string{"", `{"dryRun":true}`} {
		s.post(t, destinationsPath+"/crm/recover", body).refused(t, 400, "VALIDATION_FAILED", "more than 10000 deliveries")
	}
	part := `{"dryRun":true,"until":"` + time.Now().Add(-10*time.Second).UTC().Format(time.RFC3339Nano) + `"}`
	got := into[httpapi.Recovery](t, 202, s.post(t, destinationsPath+"/crm/recover", part))
	assert.True(t, got.Replayed >= 9900 && got.Replayed <= 10_000, "a part is %+v", got)
}

// thisHour is the window of a backfill of all that a test has published.
func thisHour() string {
	now := time.Now()
	return `{"since":"` + now.Add(-time.Hour).UTC().Format(time.RFC3339) + `","until":"` +
		now.Add(time.Hour).Format("2006-01-02T15:04:05-07:00") + `"}`
}

// backfilled is the answer to a backfill.
type backfilled struct {
	EventsScanned     int `json:"eventsScanned"`
	DeliveriesCreated int `json:"deliveriesCreated"`
}

func TestBackfillMakesWhatIsMissingOnce(t *testing.T) {
	s := serve(t)
	first := s.subscribed(t, "first") // receives what is published now
	for range 3 {
		s.delivery(t, first.ID)
	}
	s.published(t, first.ID, command.Publish{Type: "factcheck.status.changed", Data: factcheck})
	late := s.destination(t, "late")
	s.post(t, destinationsPath+"/late/subscriptions", `{"eventTypes":["news.*"],"scopeKind":"all"}`).into(t, 201, new(any))
	window := thisHour()
	for _, want := range []backfilled{{3, 3}, {3, 0}} {
		got := into[backfilled](t, 200, s.post(t, destinationsPath+"/late/backfill", window))
		assert.Equal(t, got, want, "backfill")
		page := into[page[any]](t, 200, s.get(t, destinationsPath+"/"+late.ID+"/deliveries"))
		assert.Equal(t, page.Total, 3, "deliveries")
	}
	none := into[backfilled](t, 200, s.post(t, destinationsPath+"/first/backfill", window))
	assert.Equal(t, none, backfilled{4, 0}, "backfill of delivered events … want 4 scanned and none made")
	s.post(t, destinationsPath+"/late/backfill",
		`{"since":"2020-01-01T00:00:00Z","until":"2020-01-31T00:00:00Z"}`).into(t, 200, &none)
	assert.Equal(t, none, backfilled{}, "backfill of long ago")
}

// Deliveries discarded with their subscription can be made again under a new one.
func TestBackfillReinstatesDiscarded(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	lost, arrived := s.delivery(t, destination.ID), s.delivery(t, destination.ID)
	s.happens(t, lost, s.attempt(t, destination.ID, 1, 503, ""))
	s.happens(t, lost, delivery.Discard{
		Reason: "the last subscription that asked for it was deleted",
		At:     time.Now().UTC(),
	})
	s.happens(t, arrived, s.attempt(t, destination.ID, 1, 204, ""))
	s.post(t, destinationsPath+"/crm/subscriptions",
		`{"externalId":"again","eventTypes":["news.*"],"scopeKind":"all"}`).into(t, 201, new(any))
	window := thisHour()
	for _, want := range []int{1, 0} {
		got := into[backfilled](t, 200, s.post(t, destinationsPath+"/crm/backfill", window))
		assert.True(t, got.EventsScanned == 2 && got.DeliveriesCreated == want,
			"backfill = %+v, want 2 scanned and %d created", got, want)
	}
	d := s.detail(t, lost)
	assert.True(t, d.Status == "pending" && d.CompletedAt == nil && d.NextAttemptAt != nil && d.AttemptCount == 1,
		"made again: %+v", d)
	d = s.detail(t, arrived)
	assert.True(t, d.Status == "succeeded" && d.AttemptCount == 1, "the arrived one: %+v", d)
}

func TestBackfillIsRefused(t *testing.T) {
	s := serve(t)
	s.subscribed(t, "crm")
	for body, message := range map[string]string{
		`{"until":"2026-11-02T00:00:00Z"}`: "since is required",
		`{"since":"2026-11-02T00:00:00Z"}`: "until is required",
		`{"since":"2026-11-01T00:00:00","until":"2026-11-02T00:00:00Z"}`: "since must be an ISO 8601 time with Z " +
			"or an offset",
		`{"since":"2026-11-01T00:00:00Z","until":"2026-11-02"}`:                  "until must be an ISO 8601 time",
		`{"since":1,"until":"2026-11-02T00:00:00Z"}`:                             "since must be a string",
		`{"since":"2026-11-02T00:00:00Z","until":"2026-11-01T23:59:59Z"}`:        "until must not be before since",
		`{"since":"2026-10-01T00:00:00Z","until":"2026-10-31T00:00:00.000001Z"}`: "30 days",
	} {
		s.post(t, destinationsPath+"/crm/backfill", body).refused(t, 400, "INVALID_BODY", message)
	}
	for _, body := range []string{
		`{"since":"2026-10-01T00:00:00Z","until":"2026-10-31T00:00:00Z"}`,   // exactly 30 days
		`{"since":"2026-10-01T02:00:00+02:00","until":"2026-10-01T00:00Z"}`, // one instant
	} {
		s.post(t, destinationsPath+"/crm/backfill", body).into(t, 200, new(any))
	}
}

// publishMany puts events of a type into the read model, one for each second of the first hours of October.
func (s *server) publishMany(t *testing.T, n int, kind string) {
	t.Helper()
	s.exec(t, `INSERT INTO publications.publications (id, organization, type, source, time, published_at, data)
		SELECT gen_random_uuid(), $1, $2, '/news', '2026-10-01T00:00:00Z'::timestamptz + i * interval '1 second', now(),
		'{}'::bytea FROM generate_series(1, $3) i`, s.org, kind, n)
}

func TestBackfillOverTheCapMakesNothing(t *testing.T) {
	s := serve(t)
	s.subscribed(t, "crm")
	s.destination(t, "news")
	const news = `{"eventTypes":["news.item.added"],"scopeKind":"all"}`
	s.post(t, destinationsPath+"/news/subscriptions", news).into(t, 201, new(any))
	s.publishMany(t, 10_000, "news.item.added")
	s.publishMany(t, 1, "research.status.changed") // no subscription of news matches it: not in its scope
	backfill := func(ref string) response {
		return s.post(t, destinationsPath+"/"+ref+"/backfill",
			`{"since":"2026-10-01T00:00:00Z","until":"2026-10-02T00:00:00Z"}`)
	}
	backfill("crm").refused(t, 400, "VALIDATION_FAILED", "10000")
	page := into[page[any]](t, 200, s.get(t, destinationsPath+"/crm/deliveries"))
	assert.Equal(t, page.Total, 0, "deliveries were made all the same")
	if testing.Short() {
		return // the rest makes 10,000 deliveries
	}
	assert.Equal(t, into[backfilled](t, 200, backfill("news")), backfilled{10_000, 10_000}, "exactly the cap")
}

// refusing is a store that takes no append to one stream, once as many others as wanted were appended.
type refusing struct {
	eventstore.Store

	stream string
	others chan struct{} // one for each append to another stream
	wanted int
}

func (r refusing) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if stream != r.stream {
		appended, err := r.Store.Append(ctx, stream, expected, events)
		r.others <- struct{}{}
		return appended, err
	}
	for range r.wanted {
		<-r.others
	}
	return eventstore.Appended{}, eventstore.ErrRefused
}

// Deliveries of a failed backfill still count against the limit.
func TestFailedBackfillCounts(t *testing.T) {
	s := serve(t)
	first := s.subscribed(t, "first")
	var last uuid.UUID
	for range 3 {
		last = s.detail(t, s.delivery(t, first.ID)).EventID
	}
	late := s.subscribed(t, "late")
	commands := command.Commands{
		Now:     time.Now,
		History: s.Commands.History,
		Quotas:  s.Commands.Quotas,
		Store:   refusing{s.Store, dispatch.Aggregate.Stream(last), make(chan struct{}, 10), 2},
	}
	_, err := commands.BackfillDestination(t.Context(), command.Caller{Organization: s.org},
		command.BackfillDestination{
			Destination: uuid.MustParse(late.ID), Since: time.Now().Add(-time.Hour), Until: time.Now(),
		})
	must.True(t, errors.Is(err, eventstore.ErrRefused), "error = %v, want that of the store", err)
	var settled int
	if err := s.Pool.QueryRow(t.Context(), `SELECT count(*) FROM carillon.quota_claims
		WHERE organization = $1 AND kind = $2
		AND position > 0`, s.org, organization.LimitRedeliveries).Scan(&settled); err != nil || settled != 1 {
		t.Errorf("%d claims are settled where something was recorded (%v), want 1", settled, err)
	}
}
