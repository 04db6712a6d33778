package deliveries

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/retirement"
	"carillon/projections/column"
)

// retired holds what a fold retires. Counts come from the events alone: a stored row may be there or not, as it is
// after a rebuild from a log that has lost its deliveries.
type retired struct {
	ids        column.UUIDs // stored rows to be deleted
	ofGone     column.UUIDs // deliveries to deleted destinations
	rows       []*row       // the same
	deliveries tallies
	attempts   map[attemptsKey]attempts
}

// attemptsKey names a row of retired_attempts.
type attemptsKey struct {
	destination    uuid.UUID
	day            int64
	failureReason  string
	responseStatus int
	durationMicros int64
}

// attempts are the additions to a row of retired_attempts.
type attempts struct {
	attempts, deliveries int64
	lastAt               time.Time
}

func retiredBy(event retirement.Event) (retired retirement.Retired) {
	switch e := event.(type) {
	case retirement.Retired:
		retired = e
	case retirement.HappeningsRetired, retirement.Removed: // no deliveries
	}
	return retired
}

func deliveriesOf(event retirement.Retired) (ids []uuid.UUID) {
	for _, p := range event.Publications {
		for _, to := range p.To {
			ids = append(ids, dispatch.DeliveryID(p.ID, event.Destinations[to].ID))
		}
	}
	return ids
}

// retire drops the rows of the deliveries, and adds their counts.
func (f *fold) retire(event retirement.Retired) {
	over, ids := map[*row]struct{}{}, deliveriesOf(event)
	if slices.ContainsFunc(event.Destinations, func(d retirement.Destination) bool {
		_, gone := f.gone[d.ID]
		return gone
	}) {
		f.retired.ofGone = append(f.retired.ofGone, ids...)
	}
	for _, id := range ids {
		r := f.byID[id]
		if r == nil {
			continue
		}
		over[r] = struct{}{}
		delete(f.byID, id)
		if r.before != "" {
			f.retired.ids, f.retired.rows = append(f.retired.ids, id), append(f.retired.rows, r)
		}
	}
	f.rows = slices.DeleteFunc(f.rows, func(r *row) bool { _, is := over[r]; return is })
	f.retired.add(event)
}

func (r *retired) add(event retirement.Retired) {
	if r.deliveries == nil {
		r.deliveries, r.attempts = tallies{}, map[attemptsKey]attempts{}
	}
	for _, o := range event.Outcomes {
		to := event.Destinations[o.To]
		if o.Total() == 0 {
			continue
		}
		key := tallyKey{
			destination:  to.ID,
			organization: to.Organization,
			day:          dayOf(o.Day),
			eventType:    o.Type,
			feed:         o.FeedID,
		}
		r.deliveries.add(key, tally{o.Total(), o.Succeeded, o.Failed, o.Superseded, o.Discarded}, 1)
	}
	for _, a := range event.Attempts {
		key := attemptsKey{event.Destinations[a.To].ID, dayOf(a.Day), a.FailureReason, a.ResponseStatus, a.DurationMicros}
		sum := r.attempts[key]
		sum.attempts += a.Count
		sum.deliveries += a.Deliveries
		if a.LastAt.After(sum.lastAt) {
			sum.lastAt = a.LastAt
		}
		r.attempts[key] = sum
	}
}

// count takes the rows from the tallies, and keeps the outcomes as they are, rows or not.
func (r *retired) count(all, outcomes tallies) {
	for _, row := range r.rows {
		counted := tally{total: 1}
		counted.count(row.before, 1)
		tallied, outcome := row.tallyKeys()
		all.add(tallied, counted, -1)
		outcomes.add(outcome, counted, -1)
	}
	for key, t := range r.deliveries {
		outcomes.add(tallyKey{organization: key.organization, day: key.day}, t, 1)
	}
}

// dayOf parses a day, in days since 1970.
func dayOf(text string) int64 {
	day, _ := time.Parse(time.DateOnly, text) // as recorded by this program
	return day.Unix() / daySeconds
}

// retiredAttempts is one row of retired_attempts with its additions.
type retiredAttempts struct {
	attemptsKey
	attempts
}

var addAttempts = column.SQL(`
	INSERT INTO retired_attempts AS r (destination, day, failure_reason, response_status, duration_micros, attempts,
		deliveries, last_at)
	SELECT u.destination, u.day, u.failure_reason, u.response_status, u.duration_micros, u.attempts, u.deliveries,
		u.last_at
	FROM %s
	ON CONFLICT (destination, day, failure_reason, response_status, duration_micros) DO UPDATE SET
		attempts = r.attempts + excluded.attempts, deliveries = r.deliveries + excluded.deliveries,
		last_at = greatest(r.last_at, excluded.last_at)`,
	column.New[column.UUIDs]("destination", "uuid", func(a retiredAttempts) uuid.UUID { return a.destination }),
	column.New[[]time.Time]("day", "date", func(a retiredAttempts) time.Time { return date(a.day) }),
	column.New[[]string]("failure_reason", "text", func(a retiredAttempts) string { return a.failureReason }),
	column.New[[]int]("response_status", "integer", func(a retiredAttempts) int { return a.responseStatus }),
	column.New[[]int64]("duration_micros", "bigint", func(a retiredAttempts) int64 { return a.durationMicros }),
	column.New[[]int64]("attempts", "bigint", func(a retiredAttempts) int64 { return a.attempts.attempts }),
	column.New[[]int64]("deliveries", "bigint", func(a retiredAttempts) int64 { return a.deliveries }),
	column.New[column.Times]("last_at", "timestamptz", func(a retiredAttempts) time.Time { return a.lastAt }),
)

// forgetEmpty deletes tallies of nothing, after all additions: a rebuild does not make them.
func (r *retired) forgetEmpty(batch *pgx.Batch) {
	of := map[uuid.UUID]struct{}{}
	for _, row := range r.rows {
		of[row.destination] = struct{}{}
	}
	if len(of) > 0 {
		batch.Queue("DELETE FROM tallies WHERE destination = ANY($1) AND total = 0", keys(of))
	}
}

// retireDeleted takes deliveries to deleted destinations out of the counts: the retirement brings its own.
const retireDeleted = `WITH over AS (DELETE FROM deleted_deliveries WHERE id = ANY($1) RETURNING *)
	UPDATE outcomes o SET total = o.total - s.total, succeeded = o.succeeded - s.succeeded, failed = o.failed - s.failed,
		superseded = o.superseded - s.superseded, discarded = o.discarded - s.discarded
	FROM (SELECT organization, day, count(*) AS total, count(*) FILTER (WHERE status = 'succeeded') AS succeeded,
			count(*) FILTER (WHERE status = 'failed') AS failed, count(*) FILTER (WHERE status = 'superseded') AS superseded,
			count(*) FILTER (WHERE status = 'discarded') AS discarded FROM over GROUP BY 1, 2) s
	WHERE o.organization = s.organization AND o.day = s.day`

func (r *retired) write(batch *pgx.Batch) {
	if ids := slices.Concat(r.ids, r.ofGone); len(ids) > 0 {
		batch.Queue("DELETE FROM earlier_attempts WHERE delivery = ANY($1)", ids)
	}
	if len(r.ids) > 0 {
		batch.Queue("DELETE FROM due WHERE id = ANY($1)", r.ids)
		batch.Queue("DELETE FROM deliveries WHERE id = ANY($1)", r.ids)
	}
	if len(r.ofGone) > 0 {
		batch.Queue(retireDeleted, r.ofGone)
	}
	addRetired.Queue(batch, r.deliveries.changes())
	all := make([]retiredAttempts, 0, len(r.attempts))
	for key, sum := range r.attempts {
		all = append(all, retiredAttempts{key, sum})
	}
	addAttempts.Queue(batch, all)
}
