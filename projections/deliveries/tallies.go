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
	var rows []tallyChange
	for key, change := range changes {
		if *change != (tally{}) {
			rows = append(rows, tallyChange{key, change})
		}
	}
	addTallies.Queue(batch, rows)
}

// tallyChange is how one row of tallies changes.
type tallyChange struct {
	tallyKey
	by *tally
}

var addTallies = column.Add("tallies", []string{"destination", "day", "type", "feed_id"},
	column.New[column.UUIDs]("destination", "uuid", func(c tallyChange) uuid.UUID { return c.destination }),
	column.New[[]time.Time]("day", "date", func(c tallyChange) time.Time { return time.Unix(c.day*daySeconds, 0).UTC() }),
	column.New[[]string]("type", "text", func(c tallyChange) string { return c.eventType }),
	column.New[column.UUIDs]("feed_id", "uuid", func(c tallyChange) uuid.UUID { return c.feed }),
	column.New[[]int64]("total", "bigint", func(c tallyChange) int64 { return c.by.total }),
	column.New[[]int64]("succeeded", "bigint", func(c tallyChange) int64 { return c.by.succeeded }),
	column.New[[]int64]("failed", "bigint", func(c tallyChange) int64 { return c.by.failed }),
	column.New[[]int64]("superseded", "bigint", func(c tallyChange) int64 { return c.by.superseded }),
	column.New[[]int64]("discarded", "bigint", func(c tallyChange) int64 { return c.by.discarded }),
)

// floorDiv rounds down, also for times before 1970.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
