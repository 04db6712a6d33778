package deliveries

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/projections/column"
)

// tallyKey names a row of tallies, outcomes or retired. Fields that are no column of the key of a table are zero.
type tallyKey struct {
	destination  uuid.UUID
	organization uuid.UUID
	day          int64 // since 1970, UTC
	eventType    string
	feed         uuid.UUID
}

// tallies are how much rows of one table change.
type tallies map[tallyKey]tally

func (t tallies) add(key tallyKey, by tally, sign int64) {
	sum := t[key]
	sum.total += sign * by.total
	sum.succeeded += sign * by.succeeded
	sum.failed += sign * by.failed
	sum.superseded += sign * by.superseded
	sum.discarded += sign * by.discarded
	t[key] = sum
}

// tally is how much a row changes.
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

// tallied is the change of a delivery.
func (r *row) tallied() (by tally) {
	if r.before == "" {
		by.total = 1
	}
	by.count(r.before, -1)
	by.count(r.status, 1)
	return by
}

// tallyKeys names the rows of tallies and outcomes that count the delivery.
func (r *row) tallyKeys() (tallied, outcome tallyKey) {
	day := r.createdAt.Unix() / daySeconds
	return tallyKey{
		destination: r.destination,
		day:         day,
		eventType:   r.event.Type,
		feed:        r.event.FeedID,
	}, tallyKey{organization: r.organization, day: day}
}

const daySeconds = 24 * 60 * 60

func (f *fold) writeTallies(batch *pgx.Batch) {
	all, outcomes := tallies{}, tallies{}
	for _, r := range f.rows {
		if r.before == r.status {
			continue
		}
		tallied, outcome := r.tallyKeys()
		by := r.tallied()
		all.add(tallied, by, 1)
		outcomes.add(outcome, by, 1)
	}
	f.retired.count(all, outcomes)
	addTallies.Queue(batch, all.changes())
	addOutcomes.Queue(batch, outcomes.changes())
}

// change is how one row changes.
type change struct {
	tallyKey
	tally
}

func (t tallies) changes() []change {
	rows := make([]change, 0, len(t))
	for key, by := range t {
		if by != (tally{}) {
			rows = append(rows, change{key, by})
		}
	}
	return rows
}

var (
	addTallies  = addTo("tallies", ofDestination, ofDay, ofType, ofFeed)
	addOutcomes = addTo("outcomes", ofOrganization, ofDay)
	addRetired  = addTo("retired", ofDestination, ofOrganization, ofDay, ofType, ofFeed)

	ofDestination  = column.New[column.UUIDs]("destination", "uuid", func(c change) uuid.UUID { return c.destination })
	ofOrganization = column.New[column.UUIDs]("organization", "uuid", func(c change) uuid.UUID { return c.organization })
	ofDay          = column.New[[]time.Time]("day", "date", func(c change) time.Time { return date(c.day) })
	ofType         = column.New[[]string]("type", "text", func(c change) string { return c.eventType })
	ofFeed         = column.New[column.UUIDs]("feed_id", "uuid", func(c change) uuid.UUID { return c.feed })
)

// addTo adds to the numbers of a table's rows, which the columns of its key name.
func addTo(table string, key ...column.Column[change]) column.Statement[change] {
	return column.Add(table, key,
		column.New[[]int64]("total", "bigint", func(c change) int64 { return c.total }),
		column.New[[]int64]("succeeded", "bigint", func(c change) int64 { return c.succeeded }),
		column.New[[]int64]("failed", "bigint", func(c change) int64 { return c.failed }),
		column.New[[]int64]("superseded", "bigint", func(c change) int64 { return c.superseded }),
		column.New[[]int64]("discarded", "bigint", func(c change) int64 { return c.discarded }),
	)
}

func date(day int64) time.Time { return time.Unix(day*daySeconds, 0).UTC() }
