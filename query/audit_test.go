package query_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/projecttest"
	"carillon/query"
)

var (
	auditNoon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	auditOrg  = uuid.MustParse("11111111-1111-4111-8111-111111111111")
)

// record writes a history of one destination and reads it back.
func record(t *testing.T, events ...destination.Event) ([]query.AuditEntry, *query.Queries) {
	t.Helper()
	log := projecttest.New(t, audit.ReadModel)
	id := uuid.New()
	projecttest.Stream(log, destination.Aggregate, id, auditNoon)(events...)
	projecttest.Stream(log, destination.Aggregate, uuid.New(), auditNoon)(destination.Enabled{At: auditNoon}) // another's
	log.Project()
	queries := &query.Queries{Pool: log.Database}
	history, err := queries.Audit(t.Context(), id)
	must.True(t, err == nil && len(history) == len(events), "%d entries, %v", len(history), err)
	return history, queries
}

func TestAuditState_anyTime(t *testing.T) {
	t.Parallel()
	first, second := uuid.New(), uuid.New()
	day := func(n float64) time.Time { return auditNoon.Add(time.Duration(n * 24 * float64(time.Hour))) }
	sealed := destination.Sealed{Data: []byte("x"), Digest: []byte("x")}
	history, _ := record(t,
		destination.Created{Organization: auditOrg, Settings: destination.Settings{
			ExternalID: "crm",
			Name:       "CRM",
			URL:        "https://example.org/a",
			Headers:    sealed,
		}, At: day(0)},
		destination.SecretMinted{SecretID: first, At: day(0)},
		destination.AutoDisabled{Reason: "100 consecutive failures", At: day(1)},
		destination.Revised{
			Settings: destination.Settings{
				Name:  "Billing",
				URL:   "https://example.org/b",
				Plain: destination.Plain{DebounceWindowSeconds: 5},
			},
			At: day(2),
		},
		destination.Enabled{At: day(2)},
		destination.SecretRotated{
			SecretID:  second,
			Expiring:  []uuid.UUID{first},
			ExpiresAt: day(4),
			At:        day(3),
		},
		destination.SecretExpired{SecretID: first, At: day(3.5)},
		destination.Deleted{At: day(5)},
	)
	rotated, expired := day(4), day(3.5)
	old := query.AuditState{
		Status:     "enabled",
		ExternalID: new("crm"),
		Name:       "CRM",
		URL:        "https://example.org/a",
		HasHeaders: true,
	}
	changed := query.AuditState{
		Status:   "enabled",
		Name:     "Billing",
		URL:      "https://example.org/b",
		Answered: destination.Answered{DebounceWindowSeconds: 5},
	}
	with := func(s query.AuditState, revision int64, status, reason string,
		secrets ...query.AuditSecret) *query.AuditState {
		s.Revision, s.Status, s.Secrets, s.Subscriptions = revision, status, secrets, []query.AuditSubscription{}
		if reason != "" {
			s.StatusReason = &reason
		}
		return &s
	}
	for _, tt := range []struct {
		at   time.Time
		want *query.AuditState
	}{
		{day(-1), nil},
		{day(0), with(old, 1, "enabled", "", query.AuditSecret{ID: first, CreatedAt: day(0), Active: true})},
		{day(1), with(old, 2, "auto_disabled", "100 consecutive failures", query.AuditSecret{
			ID:        first,
			CreatedAt: day(0),
			Active:    true,
		})},
		{day(2.5), with(changed, 4, "enabled", "", query.AuditSecret{ID: first, CreatedAt: day(0), Active: true})},
		{day(3.4), with(changed, 5, "enabled", "",
			query.AuditSecret{
				ID:        first,
				CreatedAt: day(0),
				ExpiresAt: &rotated,
				Active:    true,
			},
			query.AuditSecret{ID: second, CreatedAt: day(3), Active: true})},
		{day(3.5), with(changed, 6, "enabled", "",
			query.AuditSecret{ID: first, CreatedAt: day(0), ExpiresAt: &expired},
			query.AuditSecret{ID: second, CreatedAt: day(3), Active: true})},
		{day(9), with(changed, 7, "deleted", "",
			query.AuditSecret{
				ID:        first,
				CreatedAt: day(0),
				ExpiresAt: &expired,
			}, query.AuditSecret{
				ID:        second,
				CreatedAt: day(3),
			})},
	} {
		assert.Alike(t, query.AuditStateAt(history, tt.at), tt.want, "state at %s", tt.at)
	}
	// A secret has no event at the end of its overlap: it ends by time alone.
	state := query.AuditStateAt(history[:6], day(4))
	assert.True(t, !state.Secrets[0].Active && state.Secrets[1].Active, "after the overlap: %+v", state.Secrets)
	// This node's clock may be behind the one that recorded the last change.
	assert.Equal(t, query.AuditStateNow(history, day(4.9)).Status, "deleted", "now")
}

// TestAuditState_outOfOrder: an automatic disabling takes effect when its cause was recorded, possibly before a
// change that it follows. A state with the later change but without the earlier one never existed.
func TestAuditState_outOfOrder(t *testing.T) {
	t.Parallel()
	history, _ := record(t,
		destination.Created{
			Organization: auditOrg,
			Settings:     destination.Settings{Name: "CRM", URL: "https://example.org"},
			At:           auditNoon,
		},
		destination.Disabled{At: auditNoon.Add(1 * time.Second)},
		destination.Enabled{At: auditNoon.Add(5 * time.Second)},
		destination.AutoDisabled{Reason: "410", At: auditNoon.Add(4 * time.Second)},
	)
	for seconds, want := range map[int]string{0: "enabled", 1: "disabled", 4: "disabled", 5: "auto_disabled"} {
		assert.Equal(t, query.AuditStateAt(history, auditNoon.Add(time.Duration(seconds)*time.Second)).Status, want,
			"after %d s", seconds)
	}
}

// TestAuditState_matchesAggregate compares the fold of the read model with the aggregate's.
func TestAuditState_matchesAggregate(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, audit.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	rapid.Check(t, func(rt *rapid.T) {
		id, now, state := uuid.New(), auditNoon, destination.State{}
		apply := func(c destination.Command) {
			events, err := destination.Aggregate.Decide(state, c)
			if err != nil {
				return
			}
			projecttest.Stream(log, destination.Aggregate, id, now)(events...)
			for _, e := range events {
				state = destination.Aggregate.Evolve(state, e)
			}
		}
		apply(destination.Create{
			Organization: auditOrg,
			SecretID:     uuid.New(),
			At:           now,
			Settings:     destination.Settings{Name: "A", URL: "https://example.org"},
		})
		for range rapid.IntRange(0, 20).Draw(rt, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "hours")) * time.Hour)
			yes := rapid.Bool().Draw(rt, "yes")
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				apply(destination.Rotate{Organization: auditOrg, SecretID: uuid.New(), At: now})
			case 1:
				if len(state.Secrets) > 0 {
					apply(destination.ExpireSecret{
						Organization: auditOrg,
						SecretID:     rapid.SampledFrom(state.Secrets).Draw(rt, "secret").ID,
						At:           now,
					})
				}
			case 2:
				apply(destination.Revise{Organization: auditOrg, Enabled: &yes, At: now})
			case 3:
				apply(destination.AutoDisable{Reason: "failures", At: now})
			case 4:
				name := rapid.StringMatching("[A-Z]{1,3}").Draw(rt, "name")
				apply(destination.Revise{
					Organization: auditOrg,
					Sets:         destination.FieldName,
					Settings:     destination.Settings{Name: name},
					At:           now,
				})
			}
		}
		log.Project()
		history, err := queries.Audit(t.Context(), id)
		if err != nil {
			rt.Fatal(err)
		}
		got := query.AuditStateAt(history, now)
		if got.Status != string(state.Status) || got.Name != state.Settings.Name || got.URL != state.Settings.URL ||
			len(got.Secrets) != len(state.Secrets) {
			rt.Fatalf("got %+v, want %+v", got, state)
		}
		for i, s := range state.Secrets {
			secret := got.Secrets[i]
			if secret.ID != s.ID || secret.Active != s.ActiveAt(now) || (secret.ExpiresAt == nil) != s.ExpiresAt.IsZero() ||
				secret.ExpiresAt != nil && !secret.ExpiresAt.Equal(s.ExpiresAt) {
				rt.Fatalf("secret %d: got %+v, want %+v", i, secret, s)
			}
		}
	})
}

func TestAuditEntries_longHistory(t *testing.T) {
	t.Parallel()
	events := make([]destination.Event, 2500)
	for i := range events {
		events[i] = destination.Enabled{At: auditNoon}
	}
	history, queries := record(t, events...)
	id := history[0].Destination
	for i, e := range history {
		must.True(t, e.Revision == int64(i) && e.Commit == int64(i)+1 && e.Prepare == e.Commit && e.Actor == "test",
			"entry %d: %+v", i, e)
	}
	var seen []int64
	enough := errors.New("enough")
	err := queries.AuditEntries(t.Context(), id, 1998, func(e query.AuditEntry) error {
		seen = append(seen, e.Revision)
		if len(seen) == 3 {
			return enough
		}
		return nil
	})
	assert.True(t, errors.Is(err, enough) && slices.Equal(seen, []int64{1998, 1999, 2000}), "seen %v, %v", seen, err)
	assert.Is(t, assert.Err(queries.Audit(t.Context(), uuid.New())), query.ErrNotFound, "history of a missing destination")
}

func TestAudit_actorAndReason(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, audit.ReadModel)
	id, event, correlation, causation := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	log.Append(eventstore.Recorded{
		ID:      event,
		Stream:  destination.Aggregate.Stream(id),
		Type:    "destination.disabled.v1",
		Data:    []byte(`{"at":"2026-11-21T12:00:00Z"}`),
		Created: auditNoon.Add(time.Millisecond),
		Metadata: []byte(`{"organization":"` + auditOrg.String() + `","$correlationId":"` + correlation.String() +
			`","$causationId":"` + causation.String() +
			`","actor":"key:ab12","reason":"maintenance","schemaVersion":1}`),
	})
	log.Project()
	history := must.Get((&query.Queries{Pool: log.Database}).Audit(t.Context(), id))(t)
	want := []query.AuditEntry{{
		Destination:  id,
		Organization: &auditOrg,
		Change: query.Change{
			Type:          "destination.disabled.v1",
			At:            auditNoon,
			RecordedAt:    auditNoon.Add(time.Millisecond),
			EventID:       event,
			Position:      "1/1",
			Commit:        1,
			Prepare:       1,
			Actor:         "key:ab12",
			Reason:        new("maintenance"),
			CorrelationID: &correlation,
			CausationID:   &causation,
		},
		Detail: query.AuditDetail{Status: "disabled"},
	}}
	assert.Same(t, history, want)
}

// audited returns queries of an empty audit trail.
func audited(t *testing.T) *query.Queries {
	t.Helper()
	pool := projecttest.Pool(t, audit.ReadModel)
	return &query.Queries{Pool: pool}
}

// changed writes a destination with many changes: settings and status in turns, and some rotations.
func changed(t *testing.T, q *query.Queries, changes int) (id uuid.UUID, from time.Time) {
	t.Helper()
	id, from = uuid.New(), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	must.Get(q.Pool.Exec(t.Context(), `
		INSERT INTO audit.entries (destination, revision, organization, type, at, recorded_at, event_id, commit_position,
			prepare_position, actor, detail)
		SELECT $1::uuid, n, $1::uuid, 'x', $2::timestamptz + n * interval '1 minute',
			$2::timestamptz + n * interval '1 minute', gen_random_uuid(), n, n, 'key:ab12CD34', CASE
			WHEN n % 1000 = 1 THEN jsonb_build_object('secretId', gen_random_uuid())
			WHEN n % 3 = 0 THEN jsonb_build_object('status', CASE n % 2 WHEN 0 THEN 'enabled' ELSE 'disabled' END)
				|| CASE n WHEN 0 THEN '{"url":"https://example.org/0"}'::jsonb ELSE '{}'::jsonb END
			ELSE jsonb_build_object('url', 'https://example.org/' || n, 'name', 'CRM') END
		FROM generate_series(0, $3::int - 1) n`, id, from, changes))(t)
	return id, from
}

// The state that follows from a few changes is that of all.
func TestAuditEssentials(t *testing.T) {
	t.Parallel()
	q := audited(t)
	id, from := changed(t, q, 2500)
	all := must.Get(q.Audit(t.Context(), id))(t)
	for _, minutes := range []int{-1, 0, 1, 2, 3, 999, 1001, 1500, 2499, 9999} {
		at := from.Add(time.Duration(minutes) * time.Minute)
		few, err := q.AuditEssentials(t.Context(), id, at)
		assert.True(t, err == nil && len(few) <= 7, "%d entries, %v", len(few), err)
		assert.Alike(t, query.AuditStateAt(few, at), query.AuditStateAt(all, at), "after %d minutes", minutes)
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
		must.OK(t, q.AddSubscriptions(t.Context(), id, &state, day(i)))
		assert.Alike(t, state.Subscriptions, want, "day %d", i)
	}
	gone := query.AuditState{Status: "deleted"}
	err := q.AddSubscriptions(t.Context(), id, &gone, day(9))
	assert.True(t, err == nil && len(gone.Subscriptions) == 0, "deleted: %+v, %v", gone.Subscriptions, err)
}
