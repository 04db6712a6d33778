package query_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore/instant"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries/deliverystate"
	"carillon/projections/projecttest"
	"carillon/query"
)

var newsFeed = uuid.MustParse("66666666-6666-4666-8666-666666666666")

// scheduled records a delivery of a new event and returns its id.
func (d deliverySide) scheduled(event uuid.UUID, kind string, feed uuid.UUID, at time.Time,
	to dispatch.Scheduled) uuid.UUID {
	summary := dispatch.Summary{
		Type:    kind,
		Source:  "https://example.org/feeds/city",
		Subject: "item/1",
		Time:    midday,
		FeedID:  feed,
	}
	if feed != uuid.Nil {
		summary.FeedType = "news"
	}
	projecttest.Stream(d.Log, dispatch.Aggregate, event, at)(dispatch.DeliveriesScheduled{
		Publication: event,
		Event:       summary,
		Deliveries:  []dispatch.Scheduled{to},
		At:          at,
	})
	return dispatch.DeliveryID(event, to.Destination)
}

func toHook(worker int32, until time.Time) dispatch.Scheduled {
	return dispatch.Scheduled{
		Destination:   hook,
		Organization:  acme,
		Subscriptions: []uuid.UUID{other},
		Worker:        worker,
		LeasedUntil:   until,
	}
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	event := uuid.New()
	projecttest.Stream(d.Log, publication.Aggregate, event, midday)(publication.Published{
		Organization: acme,
		Type:         "news.item.added",
		Source:       "https://example.org/feeds/city",
		Subject:      "item/1",
		Time:         midday,
		FeedType:     "news",
		FeedID:       newsFeed,
		Data:         []byte(`{"title":"Fair","n":1.50}`),
	})
	id := d.scheduled(event, "news.item.added", newsFeed, midday, toHook(7, midday.Add(time.Minute)))
	d.Project()
	summary := query.EventSummary{
		ID:         event,
		Type:       "news.item.added",
		Source:     "https://example.org/feeds/city",
		Subject:    new("item/1"),
		Time:       midday,
		FeedType:   new("news"),
		FeedID:     &newsFeed,
		Sequence:   new(instant.Sequence(midday)),
		RecordedAt: midday,
	}
	want := query.DeliveryDetail{
		Delivery: query.Delivery{
			ID:            id,
			Destination:   hook,
			To:            "CRM",
			State:         deliverystate.Delivering,
			NextAttemptAt: &midday,
			CreatedAt:     midday,
			EventID:       event,
			Event:         summary,
		},
		Organization:  acme,
		Subscriptions: []uuid.UUID{other},
		Attempts:      []query.Attempt{},
		Data:          []byte(`{"title":"Fair","n":1.50}`),
	}
	wants := func(now time.Time) {
		t.Helper()
		want.Status, want.WaitsFor, want.DueAt = want.State.Status(), nil, want.NextAttemptAt
		if want.Waits.For != "" {
			want.WaitsFor = &want.Waits.For
		}
		got := must.Get(d.Delivery(t.Context(), acme, id, now))(t)
		assert.Equal(t, gocmp.Diff(want, got, utc), "", "detail (-want +got):")
		row := want.Delivery
		row.Event.ID = uuid.Nil
		page, total, err := d.Deliveries(t.Context(), acme, hook, query.DeliveryFilter{Limit: 10}, now)
		must.OK(t, err)
		if diff := gocmp.Diff([]query.Delivery{row}, page, utc); diff != "" || total != 1 {
			t.Errorf("list of %d (-want +got):\n%s", total, diff)
		}
	}
	wants(midday.Add(59 * time.Second))
	want.State = deliverystate.Waiting // the lease has expired
	want.Waits = deliverystate.Wait{For: deliverystate.Turn, Until: midday}
	wants(midday.Add(time.Minute))

	next := midday.Add(5 * time.Minute)
	happens := projecttest.Stream(d.Log, delivery.Aggregate, id, midday)
	happens(delivery.Attempted{
		Organization:  acme,
		Destination:   hook,
		Number:        1,
		Trigger:       delivery.Automatic,
		Status:        delivery.StatusPending,
		NextAttemptAt: next,
		At:            midday,
		Outcome: delivery.Outcome{
			FailureReason:  "timeout",
			ErrorMessage:   "no answer within 30s",
			DurationMicros: 30_000_000,
		},
	})
	d.Project()
	first := query.Attempt{
		Number:        1,
		Trigger:       "automatic",
		FailureReason: new("timeout"),
		ErrorMessage:  new("no answer within 30s"),
		AttemptedAt:   midday,
		Duration:      30 * time.Second,
		DurationMs:    30_000,
	}
	want.State, want.Waits = deliverystate.Retrying, deliverystate.Wait{For: deliverystate.NextAttempt, Until: next}
	want.AttemptCount, want.NextAttemptAt, want.LastAttempt, want.Attempts = 1, &next, &first, []query.Attempt{first}
	wants(midday.Add(time.Minute))

	happens(delivery.Attempted{
		Organization:   acme,
		Destination:    hook,
		Number:         2,
		RenumberedFrom: 1,
		Trigger:        delivery.Automatic,
		Status:         delivery.StatusSucceeded,
		At:             next,
		Outcome:        delivery.Outcome{ResponseStatus: 201, ResponseBody: []byte("sealed"), DurationMicros: 1500},
	})
	d.Project()
	second := query.Attempt{
		Number:         2,
		RenumberedFrom: new(1),
		Trigger:        "automatic",
		ResponseStatus: new(201),
		AttemptedAt:    next,
		Duration:       1500 * time.Microsecond,
		DurationMs:     1,
	}
	withBody := second
	withBody.ResponseBody = []byte("sealed")
	want.State, want.Waits = deliverystate.Succeeded, deliverystate.Wait{}
	want.AttemptCount, want.NextAttemptAt, want.CompletedAt = 2, nil, new(next.Add(1500*time.Microsecond))
	want.LastAttempt, want.Attempts = &second, []query.Attempt{first, withBody}
	wants(next)

	assert.Is(t, assert.Err(d.Delivery(t.Context(), rival, id, midday)), query.ErrNotFound, "another organization: error")
	assert.Is(t, assert.Err(d.Delivery(t.Context(), acme, event, midday)), query.ErrNotFound, "no such delivery: error")
	if page, total, err := d.Deliveries(t.Context(), rival, hook, query.DeliveryFilter{Limit: 10}, midday); err != nil ||
		total != 0 || len(page) != 0 {
		t.Errorf("another organization sees %d of %d (%v), want none", len(page), total, err)
	}
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(destination.Deleted{At: midday})
	d.Project()
	assert.Is(t, assert.Err(d.Delivery(t.Context(), acme, id, midday)), query.ErrNotFound,
		"its destination was deleted: error")
}

// attempts records the first attempt at a delivery, one of acme's to hook if nothing else is said.
func (d deliverySide) attempts(id uuid.UUID, a delivery.Attempted) {
	a.Organization, a.Destination = cmp.Or(a.Organization, acme), cmp.Or(a.Destination, hook)
	a.Number, a.Trigger = 1, delivery.Automatic
	projecttest.Stream(d.Log, delivery.Aggregate, id, a.At)(a)
}

// TestDeliveries_matchesPlainFilter compares the list, which counts and skips whole days by their tallies, with one
// that looks at every row.
func TestDeliveries_matchesPlainFilter(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	townFeed := uuid.New()
	rapid.Check(t, func(r *rapid.T) {
		d.Clear()
		d.destination(hook, acme, "crm", midday)
		d.destination(other, acme, "billing", midday)
		at, now := midday.Add(-5*24*time.Hour), midday
		for range rapid.IntRange(0, 40).Draw(r, "deliveries") {
			at = at.Add(rapid.SampledFrom([]time.Duration{0, time.Microsecond, time.Hour, 12 * time.Hour}).Draw(r, "pause"))
			kind := rapid.SampledFrom([]string{"news.item.added", "news.item.updated", "newsletter.sent",
				"event.item.added"}).Draw(r, "type")
			to := toHook(0, time.Time{})
			if rapid.IntRange(0, 3).Draw(r, "held") == 0 {
				to = toHook(7, now.Add(rapid.SampledFrom([]time.Duration{-time.Minute, time.Minute}).Draw(r, "lease")))
			}
			if rapid.IntRange(0, 5).Draw(r, "other") == 0 {
				to.Destination = other
			}
			feed := rapid.SampledFrom([]uuid.UUID{uuid.Nil, newsFeed, townFeed}).Draw(r, "feed")
			id := d.scheduled(uuid.New(), kind, feed, at, to)
			attempted := delivery.Attempted{Destination: to.Destination, At: at}
			switch rapid.IntRange(0, 6).Draw(r, "outcome") {
			case 0, 1:
				attempted.Status = delivery.StatusSucceeded
				d.attempts(id, attempted)
			case 2:
				attempted.Status, attempted.FailureReason = delivery.StatusFailed, "gone"
				d.attempts(id, attempted)
			case 3:
				projecttest.Stream(d.Log, delivery.Aggregate, id, at)(delivery.Superseded{By: uuid.New(), At: at})
			case 4:
				attempted.Status, attempted.FailureReason = delivery.StatusPending, "timeout"
				attempted.NextAttemptAt = now.Add(time.Hour)
				d.attempts(id, attempted)
			case 5:
				projecttest.Stream(d.Log, delivery.Aggregate, id, at)(delivery.Discarded{Reason: "no subscription", At: at})
			}
		}
		d.Project()
		all, total, err := d.Deliveries(t.Context(), acme, hook, query.DeliveryFilter{Limit: 1000}, now)
		if err != nil || total != len(all) {
			r.Fatalf("all: %d of %d (%v)", len(all), total, err)
		}
		if !slices.IsSortedFunc(all, newestFirst) {
			r.Fatal("not newest first")
		}
		for range 10 {
			f := randomFilter(r, at, townFeed)
			var want []uuid.UUID
			for _, row := range all {
				if plainlyMatches(f, row) {
					want = append(want, row.ID)
				}
			}
			wantTotal := len(want)
			want = want[min(f.Offset, len(want)):min(f.Offset+f.Limit, len(want))]
			allMatch(t, r, d, f, now)
			for name, list := range map[string]lister{"few": d.Deliveries, "many": d.DeliveriesOfMany} {
				page, total, err := list(t.Context(), acme, hook, f, now)
				if err != nil {
					r.Fatal(err)
				}
				var got []uuid.UUID
				for _, row := range page {
					got = append(got, row.ID)
				}
				if total != wantTotal || !slices.Equal(got, want) {
					r.Fatalf("%s, %+v: %d in all, want %d; page %v, want %v", name, f, total, wantTotal, got, want)
				}
			}
		}
	})
}

// allMatch compares the list of deliveries to all destinations, page by page, with the lists of each.
func allMatch(t *testing.T, r *rapid.T, d deliverySide, f query.DeliveryFilter, now time.Time) {
	t.Helper()
	var rows []query.Delivery
	for _, id := range []uuid.UUID{hook, other} {
		some, _, err := d.Deliveries(t.Context(), acme, id, query.DeliveryFilter{Limit: 1000}, now)
		if err != nil {
			r.Fatal(err)
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, newestFirst)
	var want, got []uuid.UUID
	for _, row := range rows {
		if plainlyMatches(f, row) {
			want = append(want, row.ID)
		}
	}
	f.Offset = 0
	if rapid.Bool().Draw(r, "one destination") {
		f.Destination = hook
		want = slices.DeleteFunc(want, func(id uuid.UUID) bool {
			return !slices.ContainsFunc(rows, func(row query.Delivery) bool { return row.ID == id && row.Destination == hook })
		})
	}
	if rapid.Bool().Draw(r, "named") {
		f.Among = []uuid.UUID{}
		for _, row := range rows {
			if rapid.Bool().Draw(r, "is named") {
				f.Among = append(f.Among, row.ID)
			}
		}
		want = slices.DeleteFunc(want, func(id uuid.UUID) bool { return !slices.Contains(f.Among, id) })
	}
	for mark := (query.DeliveryMark{}); len(got) <= len(want); {
		page, err := d.AllDeliveries(t.Context(), acme, f, mark, now)
		if err != nil {
			r.Fatal(err)
		}
		for _, row := range page {
			got = append(got, row.ID)
			mark = query.DeliveryMark{CreatedAt: row.CreatedAt, ID: row.ID}
		}
		if len(page) < f.Limit {
			break
		}
	}
	if !slices.Equal(got, want) {
		r.Fatalf("all of %+v: %v, want %v", f, got, want)
	}
}

type lister func(context.Context, uuid.UUID, uuid.UUID, query.DeliveryFilter, time.Time) ([]query.Delivery, int, error)

func newestFirst(a, b query.Delivery) int {
	return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), slices.Compare(b.ID[:], a.ID[:]))
}

func randomFilter(r *rapid.T, last time.Time, townFeed uuid.UUID) query.DeliveryFilter {
	f := query.DeliveryFilter{
		States: deliverystate.Set(rapid.Uint16Range(0, 1<<len(deliverystate.States())-1).Draw(r, "states")),
		Types: rapid.SliceOfN(rapid.SampledFrom([]string{"*", "news.*", "news.item.*", "news.item.added",
			"event.item.added", "nothing.*"}), 0, 2).Draw(r, "type filter"),
		Feed:   rapid.SampledFrom([]uuid.UUID{{}, {}, newsFeed, townFeed}).Draw(r, "feed filter"),
		Limit:  rapid.SampledFrom([]int{1, 3, 50}).Draw(r, "limit"),
		Offset: rapid.SampledFrom([]int{0, 0, 1, 7, 100}).Draw(r, "offset"),
	}
	bounds := []time.Time{
		{}, last, last.Add(-time.Microsecond), last.Add(-time.Nanosecond), last.Add(time.Nanosecond), last.Add(-time.Hour),
		last.Add(-36 * time.Hour), last.Truncate(24 * time.Hour),
		midday.Add(-4 * 24 * time.Hour),
	}
	f.Since, f.Until = rapid.SampledFrom(bounds).Draw(r, "since"), rapid.SampledFrom(bounds).Draw(r, "until")
	return f
}

func plainlyMatches(f query.DeliveryFilter, row query.Delivery) bool {
	of := func(pattern string) bool { return subscription.MatchesType(pattern, row.Event.Type) }
	return f.States.Has(row.State) && (len(f.Types) == 0 || slices.ContainsFunc(f.Types, of)) &&
		(f.Feed == uuid.Nil || f.Feed == query.Of(row.Event.FeedID)) &&
		(f.Since.IsZero() || !row.CreatedAt.Before(f.Since)) &&
		(f.Until.IsZero() || !row.CreatedAt.After(f.Until))
}

// TestOrphanedDeliveries: deliveries of a deleted subscription stay with the workers that hold them, and with other
// subscriptions.
func TestOrphanedDeliveries(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	lasting, now := uuid.New(), time.Now()
	projecttest.Stream(d.Log, subscription.Aggregate, lasting, midday)(subscription.Created{
		Organization: acme,
		Destination:  hook,
		At:           midday,
	})
	shared := toHook(0, time.Time{})
	shared.Subscriptions = append(shared.Subscriptions, lasting)
	waits := d.scheduled(uuid.New(), "news.item.added", newsFeed, midday, toHook(0, time.Time{}))
	d.scheduled(uuid.New(), "news.item.added", newsFeed, midday, toHook(7, now.Add(time.Hour)))
	leftBehind := d.scheduled(uuid.New(), "news.item.added", newsFeed, midday, toHook(7, now.Add(-time.Hour)))
	d.scheduled(uuid.New(), "news.item.added", newsFeed, midday, shared)
	d.Project()
	got := must.Get(d.OrphanedDeliveries(t.Context(), hook, other))(t)
	want := []uuid.UUID{waits, leftBehind}
	byID := func(a, b uuid.UUID) int { return cmp.Compare(a.String(), b.String()) }
	slices.SortFunc(got, byID)
	slices.SortFunc(want, byID)
	assert.Slices(t, got, want, "got")
}
