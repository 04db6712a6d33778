package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/column"
)

// Due rows are searched by time, the newest first: so that neither future rows nor those due for long without being
// claimed, such as a million deliveries of a disabled destination, cost anything.
const (
	// newest is how many due rows a look reads, of replays and of others each. If there are more, their destinations are
	// not all that have something due.
	newest = 1000
	// ahead is how many rows that are due later are looked at for one of an enabled destination.
	ahead = 100
)

// kind is one of the two kinds of free rows, each with an index by destination and one by time.
type kind struct {
	rows     string // their condition
	byTime   string // the same for the index by time
	eligible string // the condition of a destination t that gets them
}

var (
	replays   = newKind("worker IS NULL AND replay IS NOT NULL", "true")
	automatic = newKind("worker IS NULL AND replay IS NULL", "t.status = 'enabled'")
)

func newKind(rows, eligible string) kind {
	return kind{rows: rows, byTime: rows + " AND available_at > '-infinity'", eligible: eligible}
}

// Seen is the result of a look.
type Seen struct {
	Holders []Holder
	// Next is when, after the look, something more can be claimed or a lease ends; a moment at which nothing can, as where
	// many wait for disabled destinations, is possible. The zero time: nothing is planned. A worker that has claimed until
	// nothing more came can sleep until then, which may be over by the time it has.
	Next time.Time

	at                 time.Time
	replays, automatic recent
}

// recent are the destinations of the newest due rows, those left out that don't get them.
type recent struct {
	destinations []uuid.UUID
	more         bool // there may be older rows, of other destinations
}

// Due reports whether something may be due.
func (s Seen) Due() bool { return s.replays.any() || s.automatic.any() }

func (r recent) any() bool { return r.more || len(r.destinations) > 0 }

// Look returns the due deliveries, the workers that hold deliveries, and when more can be claimed. It is one round
// trip, shared with the other queries of a batch.
func Look(ctx context.Context, pool *pgxpool.Pool, along *pgx.Batch, now time.Time) (Seen, error) {
	s := Seen{at: now}
	along.Queue(planByIndex)
	along.Queue(holding).Query(func(rows pgx.Rows) (err error) {
		s.Holders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Holder])
		return err
	})
	along.Queue(recentReplays, now).Query(s.replays.scan)
	along.Queue(recentAutomatic, now).Query(s.automatic.scan)
	along.Queue(nextDue, now).QueryRow(func(row pgx.Row) error { return row.Scan(column.Time(&s.Next)) })
	if err := pool.SendBatch(ctx, along).Close(); err != nil {
		return Seen{}, fmt.Errorf("look for due deliveries: %w", err)
	}
	return s, nil
}

var (
	recentReplays   = replays.recent()
	recentAutomatic = automatic.recent()
)

// recent counts the newest due rows by destination; $1 is now.
func (k kind) recent() string {
	return fmt.Sprintf(`
	SELECT n.destination, n.found, coalesce((SELECT %s FROM destinations.destinations t WHERE t.id = n.destination), false)
	FROM (SELECT destination, count(*) AS found FROM (
			SELECT destination FROM deliveries.due WHERE %s AND available_at <= $1 ORDER BY available_at DESC LIMIT %d) newest
		GROUP BY destination) n`, k.eligible, k.byTime, newest)
}

func (r *recent) scan(rows pgx.Rows) error {
	var (
		id           uuid.UUID
		found, total int
		eligible     bool
	)
	_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), &found, &eligible}, func() error {
		if total += found; eligible {
			r.destinations = append(r.destinations, id)
		}
		return nil
	})
	r.more = total == newest
	return err
}

// nextDue asks when, after $1, the next delivery can be claimed: of an enabled destination, a replay, or one whose
// lease ends.
var nextDue = fmt.Sprintf(withWorkers+`
	SELECT least(
		coalesce(
			(SELECT available_at FROM (
				SELECT destination, available_at FROM deliveries.due WHERE %[1]s AND available_at > $1 ORDER BY available_at
				LIMIT %[3]d) soon
				WHERE (SELECT %[2]s FROM destinations.destinations t WHERE t.id = soon.destination)
				ORDER BY available_at LIMIT 1),
			(SELECT available_at FROM deliveries.due WHERE %[1]s AND available_at > $1 ORDER BY available_at OFFSET %[3]d - 1
			LIMIT 1)),
		(SELECT available_at FROM deliveries.due WHERE %[4]s AND available_at > $1 ORDER BY available_at LIMIT 1),
		(SELECT min((SELECT available_at FROM deliveries.due WHERE due.worker = workers.worker AND available_at > $1
				ORDER BY available_at LIMIT 1))
			FROM workers))`, automatic.byTime, automatic.eligible, ahead, replays.byTime)
