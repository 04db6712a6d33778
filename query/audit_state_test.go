package query_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/projections/audit"
	"carillon/projections/projecttest"
	"carillon/query"
)

// audited returns queries of an empty audit trail.
func audited(tb testing.TB) *query.Queries {
	tb.Helper()
	pool := projecttest.Pool(tb, audit.ReadModel)
	return &query.Queries{Pool: pool}
}

// changed writes a destination with many changes: settings and status in turns, and some rotations.
func changed(tb testing.TB, q *query.Queries, changes int) (id uuid.UUID, from time.Time) {
	tb.Helper()
	id, from = uuid.New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := q.Pool.Exec(tb.Context(), `
		INSERT INTO audit.entries (destination, revision, organization, type, at, recorded_at, event_id, commit_position,
			prepare_position, actor, detail)
		SELECT $1::uuid, n, $1::uuid, 'x', $2::timestamptz + n * interval '1 minute',
			$2::timestamptz + n * interval '1 minute', gen_random_uuid(), n, n, 'key:ab12CD34', CASE
			WHEN n % 1000 = 1 THEN jsonb_build_object('secretId', gen_random_uuid())
			WHEN n % 3 = 0 THEN jsonb_build_object('status', CASE n % 2 WHEN 0 THEN 'enabled' ELSE 'disabled' END)
				|| CASE n WHEN 0 THEN '{"url":"https://example.org/0"}'::jsonb ELSE '{}'::jsonb END
			ELSE jsonb_build_object('url', 'https://example.org/' || n, 'name', 'CRM') END
		FROM generate_series(0, $3::int - 1) n`, id, from, changes); err != nil {
		tb.Fatal(err)
	}
	return id, from
}

// The state that follows from a few changes is that of all.
func TestAuditEssentials(t *testing.T) {
	t.Parallel()
	q := audited(t)
	id, from := changed(t, q, 2500)
	all, err := q.Audit(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, minutes := range []int{-1, 0, 1, 2, 3, 999, 1001, 1500, 2499, 9999} {
		at := from.Add(time.Duration(minutes) * time.Minute)
		few, err := q.AuditEssentials(t.Context(), id, at)
		if err != nil || len(few) > 7 {
			t.Errorf("%d entries, %v", len(few), err)
		}
		if diff := cmp.Diff(query.AuditStateAt(all, at), query.AuditStateAt(few, at)); diff != "" {
			t.Errorf("after %d minutes (-want +got):\n%s", minutes, diff)
		}
	}
}

// The subscriptions at a time are those of the aggregate then, and gone with their destination.
func TestAuditSubscriptions_anyTime(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, audit.ReadModel)
	q := &query.Queries{Pool: log.Database}
	day := func(n int) time.Time { return auditNoon.AddDate(0, 0, n) }
	id, kept, dropped, programme := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	all := subscription.Settings{EventTypes: []string{"concert.*"}, ScopeKind: subscription.ScopeAll}
	some := subscription.Settings{
		ExternalID: "crm",
		EventTypes: []string{"concert.added"},
		ScopeKind:  subscription.ScopeFeeds,
		Feeds:      []subscription.Pin{{FeedType: "events", FeedID: programme}},
	}
	created := func(of uuid.UUID, at time.Time) subscription.Event {
		return subscription.Created{
			Organization: auditOrg,
			Destination:  of,
			Settings:     all,
			At:           at,
		}
	}
	projecttest.Stream(log, subscription.Aggregate, kept, auditNoon)(
		created(id, day(0)),
		subscription.Deactivated{Reason: "feed access lost", At: day(2)},
		subscription.Revised{Settings: some, At: day(3)},
		subscription.Activated{At: day(4)})
	projecttest.Stream(log, subscription.Aggregate, dropped, auditNoon)(created(id, day(1)),
		subscription.Deleted{At: day(3)})
	projecttest.Stream(log, subscription.Aggregate, uuid.New(), auditNoon)(created(uuid.New(), day(0))) // another's
	log.Project()
	old := query.AuditSubscription{
		ID:        kept,
		Answered:  subscription.Answered{EventTypes: all.EventTypes, ScopeKind: "all", Feeds: []subscription.Pin{}},
		Active:    true,
		CreatedAt: day(0),
		UpdatedAt: day(0),
	}
	other := old
	other.ID, other.CreatedAt, other.UpdatedAt = dropped, day(1), day(1)
	off := old
	off.Active, off.Reason, off.Revision, off.UpdatedAt = false, new("feed access lost"), 1, day(2)
	revised := off
	revised.ExternalID, revised.EventTypes, revised.ScopeKind = new("crm"), some.EventTypes, "feeds"
	revised.Feeds = []subscription.Pin{{FeedType: "events", FeedID: programme}}
	revised.Revision, revised.UpdatedAt = 2, day(3)
	on := revised
	on.Active, on.Reason, on.Revision, on.UpdatedAt = true, nil, 3, day(4)
	for i, want := range [][]query.AuditSubscription{{old}, {old, other}, {off, other}, {revised}, {on}} {
		state := query.AuditState{Status: "enabled"}
		if err := q.AddSubscriptions(t.Context(), id, &state, day(i)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, state.Subscriptions); diff != "" {
			t.Errorf("day %d (-want +got):\n%s", i, diff)
		}
	}
	gone := query.AuditState{Status: "deleted"}
	if err := q.AddSubscriptions(t.Context(), id, &gone, day(9)); err != nil || len(gone.Subscriptions) > 0 {
		t.Errorf("deleted: %+v, %v", gone.Subscriptions, err)
	}
}

// subscribed writes many changes of ten subscriptions of a destination.
func subscribed(tb testing.TB, q *query.Queries, destination uuid.UUID, from time.Time, changes int) {
	tb.Helper()
	if _, err := q.Pool.Exec(tb.Context(), `
		INSERT INTO audit.record (kind, thing, organization, main, stream, revision, type, at, recorded_at, event_id,
			commit_position, prepare_position, actor, detail)
		SELECT 'destination', $1::uuid::text, $1::uuid, true, 'subscription-' || md5(($1::text || n % 10))::uuid, n / 10,
			CASE WHEN n < 10 THEN 'subscription.created.v1' ELSE 'subscription.revised.v1' END,
			$2::timestamptz + n * interval '1 minute', $2::timestamptz + n * interval '1 minute', gen_random_uuid(), n, n,
			'key:ab12CD34', jsonb_build_object('destination', $1::text, 'declaration', jsonb_build_object('scopeKind', 'all',
				'eventTypes', jsonb_build_array('concert.added', 'concert.revised', 'concert.' || n)))
		FROM generate_series(0, $3::int - 1) n`, destination, from, changes); err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkAuditState measures the state at an instant of a destination with 10,000 changes, and 10,000 of its
// subscriptions.
func BenchmarkAuditState(b *testing.B) {
	q := audited(b)
	id, from := changed(b, q, 10_000)
	subscribed(b, q, id, from, 10_000)
	for b.Loop() {
		at := from.Add(7777 * time.Minute)
		few, err := q.AuditEssentials(b.Context(), id, at)
		state := query.AuditStateAt(few, at)
		if err != nil || state == nil {
			b.Fatal(err)
		}
		if err := q.AddSubscriptions(b.Context(), id, state, at); err != nil || len(state.Subscriptions) != 10 {
			b.Fatal(len(state.Subscriptions), err)
		}
	}
}
