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

// outcomesKey names a row of outcomes.
type outcomesKey struct {
	organization uuid.UUID
	day          int64
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

// after is the tally including a delivery's change.
func (t tally) after(r *row) tally {
	if r.before == "" {
		t.total++
	}
	t.count(r.before, -1)
	t.count(r.status, 1)
	return t
}

const daySeconds = 24 * 60 * 60

func (f *fold) writeTallies(batch *pgx.Batch) {
	tallies, outcomes := map[tallyKey]tally{}, map[outcomesKey]tally{}
	for _, r := range f.rows {
		if r.before == r.status {
			continue
		}
		day := r.createdAt.Unix() / daySeconds
		key, sum := tallyKey{r.destination, day, r.event.Type, r.event.FeedID}, outcomesKey{r.organization, day}
		tallies[key], outcomes[sum] = tallies[key].after(r), outcomes[sum].after(r)
	}
	f.retired.count(tallies, outcomes)
	addTallies.Queue(batch, changesOf(tallies))
	addOutcomes.Queue(batch, changesOf(outcomes))
}

// change is how one row of tallies, or of outcomes, changes.
type change[K comparable] struct {
	key K
	by  tally
}

func changesOf[K comparable](all map[K]tally) []change[K] {
	rows := make([]change[K], 0, len(all))
	for key, by := range all {
		if by != (tally{}) {
			rows = append(rows, change[K]{key, by})
		}
	}
	return rows
}

var (
	addTallies = column.Add("tallies", []string{"destination", "day", "type", "feed_id"},
		append([]column.Column[change[tallyKey]]{
			column.New[column.UUIDs]("destination", "uuid", func(c change[tallyKey]) uuid.UUID { return c.key.destination }),
			column.New[[]time.Time]("day", "date", func(c change[tallyKey]) time.Time { return date(c.key.day) }),
			column.New[[]string]("type", "text", func(c change[tallyKey]) string { return c.key.eventType }),
			column.New[column.UUIDs]("feed_id", "uuid", func(c change[tallyKey]) uuid.UUID { return c.key.feed }),
		}, numbers[tallyKey]()...)...)
	addOutcomes = column.Add("outcomes", []string{"organization", "day"}, append([]column.Column[change[outcomesKey]]{
		column.New[column.UUIDs]("organization", "uuid", func(c change[outcomesKey]) uuid.UUID { return c.key.organization }),
		column.New[[]time.Time]("day", "date", func(c change[outcomesKey]) time.Time { return date(c.key.day) }),
	}, numbers[outcomesKey]()...)...)
)

// numbers are the columns that are added up.
func numbers[K comparable]() []column.Column[change[K]] {
	return []column.Column[change[K]]{
		column.New[[]int64]("total", "bigint", func(c change[K]) int64 { return c.by.total }),
		column.New[[]int64]("succeeded", "bigint", func(c change[K]) int64 { return c.by.succeeded }),
		column.New[[]int64]("failed", "bigint", func(c change[K]) int64 { return c.by.failed }),
		column.New[[]int64]("superseded", "bigint", func(c change[K]) int64 { return c.by.superseded }),
		column.New[[]int64]("discarded", "bigint", func(c change[K]) int64 { return c.by.discarded }),
	}
}

func date(day int64) time.Time { return time.Unix(day*daySeconds, 0).UTC() }
