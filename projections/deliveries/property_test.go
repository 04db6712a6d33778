package deliveries_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

var tables = []string{"deliveries.deliveries", "deliveries.earlier_attempts", "deliveries.due", "deliveries.tallies",
	"deliveries.outcomes", "deliveries.gone", "deliveries.deleted_deliveries"}

// TestHoweverTheEventsAreBatched holds the fold, in which a batch becomes few statements, against the same events one
// by one, against what the aggregates decided, and the tables against each other.
func TestHoweverTheEventsAreBatched(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	rapid.Check(t, func(r *rapid.T) {
		h.Clear()
		made := randomHistory(r, h)
		sizes := rapid.SliceOfN(rapid.IntRange(1, 40), 1, 4).Draw(r, "batch sizes")
		h.SameInBatches(r, deliveries.ReadModel, sizes, tables...)
		for wrong, sql := range map[string]string{
			"tallies that don't count": `
				SELECT count(*) FROM (
					SELECT destination, (created_at AT TIME ZONE 'UTC')::date AS day, type,
					coalesce(feed_id, '00000000-0000-0000-0000-000000000000') AS feed_id,
						count(*) AS total, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
						count(*) FILTER (WHERE status = 'failed') AS failed,
						count(*) FILTER (WHERE status = 'superseded') AS superseded, count(*) FILTER (WHERE status = 'discarded') AS
						discarded
					FROM deliveries.deliveries GROUP BY 1, 2, 3, 4) counted
				FULL JOIN deliveries.tallies t USING (destination, day, type, feed_id, total, succeeded, failed, superseded,
				discarded)
				WHERE counted IS NULL OR t IS NULL`,
			"outcomes that are not the sums of the tallies": `
				SELECT count(*) FROM (
					SELECT w.organization, t.day, sum(t.total) AS total, sum(t.succeeded) AS succeeded, sum(t.failed) AS failed,
						sum(t.superseded) AS superseded, sum(t.discarded) AS discarded
					FROM deliveries.all_tallies t JOIN (SELECT organization, destination FROM deliveries.deliveries
						UNION SELECT organization, destination FROM deliveries.deleted_deliveries) w USING
					(destination) GROUP BY 1, 2) counted
				FULL JOIN (SELECT * FROM deliveries.outcomes WHERE total <> 0) o USING (organization, day, total, succeeded, failed,
				superseded, discarded)
				WHERE counted IS NULL OR o IS NULL`,
			"deliveries that wait and are not due, or the other way round": `
				SELECT count(*) FROM deliveries.deliveries d FULL JOIN deliveries.due u ON u.id = d.id
				WHERE (d.status = 'pending' OR d.replay IS NOT NULL) <> (u.id IS NOT NULL) OR d.id IS NULL OR u.replay IS DISTINCT
				FROM d.replay AND u.id IS NOT NULL`,
			"attempts of another day": `
				SELECT count(*) FROM deliveries.all_attempts WHERE day <> (attempted_at AT TIME ZONE 'UTC')::date`,
			"deliveries without their number of attempts": `
				SELECT count(*) FROM deliveries.deliveries d
				WHERE d.attempts <> (SELECT count(*) FROM deliveries.attempts a WHERE a.delivery = d.id)`,
			"unsuccessful ones that the index for them misses, or the other way round": `
				SELECT count(*) FROM deliveries.deliveries
				WHERE unsuccessful IS DISTINCT FROM CASE WHEN status NOT IN ('pending', 'succeeded') THEN status
					WHEN status = 'pending' AND attempts > 0 THEN 'retrying' END`,
			"completed ones that are pending, or the other way round": `
				SELECT count(*) FROM deliveries.deliveries WHERE (status = 'pending') <> (completed_at IS NULL)`,
		} {
			if n := h.count(sql); n != 0 {
				r.Errorf("%d %s", n, wrong)
			}
		}
		var ids []uuid.UUID
		want := []*stored{}
		for _, k := range made {
			if ids = append(ids, dispatch.DeliveryID(event(k.n), k.destination)); k.want != nil {
				want = append(want, k.want)
			}
		}
		got := h.rows(ids...)
		for _, row := range got {
			row.Worker, row.AvailableAt = nil, nil // leases
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Errorf("deliveries (-decided +shown):\n%s", diff)
		}
	})
}

// known is a delivery as it was decided.
type known struct {
	n           int
	destination uuid.UUID
	state       delivery.State
	want        *stored // nil if its destination was deleted
}

// apply takes in an event of the delivery.
func (k *known) apply(event delivery.Event) {
	k.state = delivery.Aggregate.Evolve(k.state, event)
	w, at, due := k.want, k.state.ChangedAt, k.state.NextAttemptAt
	if w == nil {
		return
	}
	switch e := event.(type) {
	case delivery.Attempted:
		at = e.At.Add(e.Duration())
	case delivery.Reinstated:
		due, w.Subscriptions = e.At, e.Subscriptions
	case delivery.ReplayRequested:
		due = e.At
	case delivery.Superseded:
		at = e.At // which may be before the last change, by another clock
	case delivery.Discarded:
		at = e.At
	case delivery.ReplayDropped, delivery.RetryRequested:
	}
	before := w.Status
	w.Status, w.Attempts, w.Automatic = string(k.state.Status), k.state.Attempts, k.state.Automatic
	if w.Status == "" {
		w.Status = "pending"
	}
	w.Revision++
	switch {
	case w.Status == "pending":
		w.CompletedAt = nil
	case w.Status != before: // a replay of one that has ended in the same way moves nothing
		w.CompletedAt = &at
	}
	switch _, retry := event.(delivery.RetryRequested); {
	case k.state.Over():
		w.DueAt, w.Replay = nil, nil
	case k.state.Replay == uuid.Nil:
		w.DueAt, w.Replay = &due, nil
	case retry, w.Replay != nil && *w.Replay == k.state.Replay: // another driver's attempt leaves it due
	default:
		w.DueAt, w.Replay = &due, &k.state.Replay
	}
}

func newKnown(n int, destination uuid.UUID, at time.Time) *known {
	row := pending(fmt.Sprint("item/", n))
	row.CreatedAt, row.DueAt, row.AvailableAt = at, &at, nil
	return &known{n: n, destination: destination, want: &row}
}

// seldomHistory records what chance does not bring about often enough.
func seldomHistory(h history) (made []*known) {
	to, hour := to(secretOf(alpha)), noon.Add(time.Hour)
	replay := replayWanted(to.Destination, uuid.New(), hour)
	last, retried := gaveUp(1, to.Destination, noon), failed(1, to.Destination, noon, noon.Add(time.Minute))
	for i, events := range [][]delivery.Event{
		{retried, delivery.Discarded{Reason: "the last subscription was deleted", At: noon}, delivery.Reinstated{
			Organization:  org,
			Destination:   to.Destination,
			Subscriptions: []uuid.UUID{uuid.New()},
			At:            hour,
		}},
		{last, replay, delivery.ReplayDropped{Replay: replay.Replay, Reason: "the feed was deleted", At: hour}},
		// Another driver's automatic attempt comes before the replay, and it is sent again after it has arrived.
		{last, replay, gaveUp(2, to.Destination, hour), replayed(succeeded(3, to.Destination, hour)),
			replayWanted(to.Destination, uuid.New(), hour.Add(time.Hour)),
			replayed(succeeded(4, to.Destination, hour.Add(time.Hour)))},
	} {
		one := newKnown(1000+i, to.Destination, noon)
		h.schedule(one.n, noon, to)
		for _, event := range events {
			one.apply(event)
		}
		h.happens(one.n, to.Destination, events...)
		made = append(made, one)
	}
	return made
}

// randomHistory lets random commands decide what happens, so that the streams are such as can be.
func randomHistory(r *rapid.T, h history) (made []*known) {
	made = seldomHistory(h)
	gone, at := map[uuid.UUID]bool{}, noon
	destinations := []uuid.UUID{alpha, beta, uuid.New()}
	decide := func(k *known, command delivery.Command) {
		events, err := delivery.Aggregate.Decide(k.state, command)
		if err != nil {
			return // refused
		}
		for _, event := range events {
			k.apply(event)
		}
		h.happens(k.n, k.destination, events...)
	}
	for n := range rapid.IntRange(5, 60).Draw(r, "steps") {
		at = at.Add(rapid.SampledFrom([]time.Duration{time.Microsecond, time.Minute, 7 * time.Hour}).Draw(r, "pause"))
		kind := rapid.IntRange(0, 10).Draw(r, "kind")
		if kind <= 2 || len(made) == 3 {
			var fanOut []dispatch.Scheduled
			for _, id := range destinations {
				if !rapid.Bool().Draw(r, "receives") {
					continue
				}
				s := to(id) // also if it is gone: the dispatcher may not know yet
				if rapid.Bool().Draw(r, "held") {
					s.Worker, s.LeasedUntil = 3, at.Add(time.Minute)
				}
				fanOut = append(fanOut, s)
				one := newKnown(n, id, at)
				if gone[id] {
					one.want = nil
				}
				made = append(made, one)
			}
			h.schedule(n, at, fanOut...)
			continue
		}
		k := rapid.SampledFrom(made).Draw(r, "delivery")
		switch kind {
		case 3, 4, 5, 6:
			attempt := delivery.RecordAttempt{
				Organization: org,
				Destination:  k.destination,
				At:           at,
				Trigger:      delivery.Automatic,
				Number:       max(1, k.state.Attempts+rapid.IntRange(0, 1).Draw(r, "number")),
				Retry:        delivery.Retry{Schedule: []time.Duration{time.Second, time.Minute}},
			}
			if k.state.Replay != uuid.Nil && rapid.Bool().Draw(r, "is replay") {
				attempt.Trigger = delivery.ManualReplay
			}
			attempt.Outcome = rapid.SampledFrom([]delivery.Outcome{
				{ResponseStatus: 200, DurationMicros: 900, ResponseBody: []byte("ok")},
				{ResponseStatus: 500, FailureReason: "http_status", ErrorMessage: "answered 500"},
				{FailureReason: "timeout", ErrorMessage: "no answer within 30s", DurationMicros: 30_000_000},
			}).Draw(r, "outcome")
			decide(k, attempt)
		case 7:
			decide(k, delivery.RequestReplay{
				Organization: org,
				Destination:  k.destination,
				Replay:       uuid.New(),
				At:           at,
			})
		case 10:
			decide(k, delivery.RequestRetry{Organization: org, Destination: k.destination, At: at})
		case 8:
			decide(k, rapid.SampledFrom([]delivery.Command{
				delivery.Supersede{By: uuid.New(), At: at}, delivery.Discard{Reason: "no subscription matches", At: at},
				delivery.Reinstate{
					Organization:  org,
					Destination:   k.destination,
					Subscriptions: []uuid.UUID{uuid.New()},
					At:            at,
				},
				delivery.DropReplay{Replay: k.state.Replay, Reason: "unshared", At: at},
			}).Draw(r, "end"))
		case 9:
			if !gone[k.destination] && rapid.IntRange(0, 3).Draw(r, "delete") == 0 {
				gone[k.destination] = true
				for _, one := range made {
					if one.destination == k.destination {
						one.want = nil
					}
				}
				projecttest.Stream(h.Log, destination.Aggregate, k.destination, at)(destination.Deleted{At: at})
			}
		}
	}
	return made
}
