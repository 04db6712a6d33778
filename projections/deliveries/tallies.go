package deliveries

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/projections/column"
)

// tallyKey names a row of tallies.
type tallyKey struct {
	destination uuid.UUID
	day         int64 // since 1970, UTC
	eventType   string
	feed        uuid.UUID
}

// tally is how much a row of tallies changes.
type tally struct{ total, succeeded, failed, superseded, discarded int64 }

func (t *tally) count(status delivery.Status, by int64) {
	switch status {
	case delivery.StatusSucceeded:
		t.succeeded += by
	case delivery.StatusFailed:
		t.failed += by
	case delivery.StatusSuperseded:
		t.superseded += by
	case delivery.StatusDiscarded:
		t.discarded += by
	case delivery.StatusPending: // the rest of total
	}
}

const daySeconds = 24 * 60 * 60

func (f *fold) writeTallies(batch *pgx.Batch) {
	changes := map[tallyKey]*tally{}
	for _, r := range f.rows {
		if r.before == r.status {
			continue
		}
		key := tallyKey{r.destination, floorDiv(r.createdAt.Unix(), daySeconds), r.event.Type, r.event.FeedID}
		change := changes[key]
		if change == nil {
			change = new(tally)
			changes[key] = change
		}
		if r.before == "" {
			change.total++
		}
		change.count(r.before, -1)
		change.count(r.status, 1)
	}
	var (
		destination, feed                               column.UUIDs
		day                                             []time.Time
		eventType                                       []string
		total, succeeded, failed, superseded, discarded []int64
	)
	for key, change := range changes {
		if *change == (tally{}) {
			continue
		}
		destination, feed = append(destination, key.destination), append(feed, key.feed)
		day, eventType = append(day, time.Unix(key.day*daySeconds, 0).UTC()), append(eventType, key.eventType)
		total, succeeded, failed = append(total, change.total), append(succeeded, change.succeeded), append(failed, change.failed)
		superseded, discarded = append(superseded, change.superseded), append(discarded, change.discarded)
	}
	if len(destination) == 0 {
		return
	}
	batch.Queue(`
		INSERT INTO tallies AS t (destination, day, type, feed_id, total, succeeded, failed, superseded, discarded)
		SELECT * FROM unnest($1::uuid[], $2::date[], $3::text[], $4::uuid[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[])
		ON CONFLICT (destination, day, type, feed_id) DO UPDATE SET total = t.total + excluded.total,
			succeeded = t.succeeded + excluded.succeeded, failed = t.failed + excluded.failed,
			superseded = t.superseded + excluded.superseded, discarded = t.discarded + excluded.discarded`,
		destination, day, eventType, feed, total, succeeded, failed, superseded, discarded)
}

// floorDiv rounds down, also for times before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
