package httpapi_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

func TestBackfillMakesWhatIsMissingOnce(t *testing.T) {
	s := serve(t)
	first := s.subscribed(t, "first") // receives what is published now
	for range 3 {
		s.delivery(t, first.ID)
	}
	s.published(t, first.ID, command.Publish{Type: "factcheck.status.changed", Data: factcheck})
	late := s.destination(t, "late")
	s.post(t, destinationsPath+"/late/subscriptions", `{"eventTypes":["news.*"],"scopeKind":"all"}`).into(t, 201, new(any))
	type view struct {
		EventsScanned     int `json:"eventsScanned"`
		DeliveriesCreated int `json:"deliveriesCreated"`
	}
	window := `{"since":"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `","until":"` +
		time.Now().Add(time.Hour).Format("2006-01-02T15:04:05-07:00") + `"}`
	for _, want := range []view{{3, 3}, {3, 0}} {
		got := into[view](t, 200, s.post(t, destinationsPath+"/late/backfill", window))
		if got != want {
			t.Errorf("backfill = %+v, want %+v", got, want)
		}
		page := into[pageTotal](t, 200, s.get(t, destinationsPath+"/"+late.ID+"/deliveries"))
		if page.Total != 3 {
			t.Errorf("%d deliveries, want 3", page.Total)
		}
	}
	none := into[view](t, 200, s.post(t, destinationsPath+"/first/backfill", window))
	if none != (view{4, 0}) {
		t.Errorf("backfill of delivered events = %+v, want 4 scanned and none made", none)
	}
	s.post(t, destinationsPath+"/late/backfill",
		`{"since":"2020-01-01T00:00:00Z","until":"2020-01-31T00:00:00Z"}`).into(t, 200, &none)
	if none != (view{}) {
		t.Errorf("backfill of long ago = %+v", none)
	}
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
	window := `{"since":"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `","until":"` +
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	for _, want := range []int{1, 0} {
		var got struct {
			EventsScanned     int `json:"eventsScanned"`
			DeliveriesCreated int `json:"deliveriesCreated"`
		}
		s.post(t, destinationsPath+"/crm/backfill", window).into(t, 200, &got)
		if got.EventsScanned != 2 || got.DeliveriesCreated != want {
			t.Errorf("backfill = %+v, want 2 scanned and %d created", got, want)
		}
	}
	d := s.detail(t, lost)
	if d.Status != "pending" || d.CompletedAt != nil || d.NextAttemptAt == nil || d.AttemptCount != 1 {
		t.Errorf("made again: %+v", d)
	}
	if d = s.detail(t, arrived); d.Status != "succeeded" || d.AttemptCount != 1 {
		t.Errorf("the arrived one: %+v", d)
	}
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
	must.Get(s.Pool.Exec(t.Context(), `INSERT INTO publications.publications (id, organization, type, source, time,
		published_at, data)
		SELECT gen_random_uuid(), $1, $2, '/news', '2026-10-01T00:00:00Z'::timestamptz + i * interval '1 second', now(),
		'{}'::bytea FROM generate_series(1, $3) i`,
		s.org, kind, n))(t)
}

const backfillOfMany = `{"since":"2026-10-01T00:00:00Z","until":"2026-10-02T00:00:00Z"}`

func TestBackfillOverTheCapMakesNothing(t *testing.T) {
	s := serve(t)
	destination := s.destination(t, "crm")
	s.post(t, destinationsPath+"/crm/subscriptions", `{"eventTypes":["news.item.added"],"scopeKind":"all"}`).into(t, 201,
		new(any))
	s.publishMany(t, 10_001, "news.item.added")
	s.publishMany(t, 500, "research.status.changed") // no subscription matches these: not in scope
	s.post(t, destinationsPath+"/crm/backfill", backfillOfMany).refused(t, 400, "VALIDATION_FAILED", "10000")
	page := into[pageTotal](t, 200, s.get(t, destinationsPath+"/"+destination.ID+"/deliveries"))
	if page.Total != 0 {
		t.Errorf("%d deliveries were made all the same", page.Total)
	}
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
		last = uuid.MustParse(s.detail(t, s.delivery(t, first.ID)).EventID)
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
	if !errors.Is(err, eventstore.ErrRefused) {
		t.Fatalf("error = %v, want that of the store", err)
	}
	var settled int
	if err := s.Pool.QueryRow(t.Context(), `SELECT count(*) FROM carillon.quota_claims
		WHERE organization = $1 AND kind = $2
		AND position > 0`, s.org, organization.LimitRedeliveries).Scan(&settled); err != nil || settled != 1 {
		t.Errorf("%d claims are settled where something was recorded (%v), want 1", settled, err)
	}
}
