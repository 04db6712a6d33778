package deliveries

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/column"
)

const (
	maxVisited = 1000 // destinations that are visited at one time
	// pauseFactor is the pause after a walk, as a multiple of its duration: the round takes a thirtieth of the time at
	// most.
	pauseFactor = 29
	// maxAsked is how many destinations one claim asks beside those of the newest rows.
	maxAsked = 1000
	// maxKnown is how many destinations are remembered.
	maxKnown = 16 * maxAsked
)

// round finds destinations with something due where so much is due that a look at the newest doesn't show them all. It
// goes round all that have something waiting, maxVisited at a time, and remembers of which something is due: those are
// asked in each claim, until nothing comes of one.
type round struct {
	kind  kind
	known map[uuid.UUID]struct{}
	after uuid.UUID     // start of the next walk
	ended time.Time     // the last walk
	took  time.Duration // that walk
}

// candidates lists destinations to ask, in the order of chance: all that have something due if the newest rows show
// them, else those of the newest rows, and others that are known.
func (r *round) candidates(
	ctx context.Context, pool *pgxpool.Pool, seen recent, ask Ask, now time.Time,
) ([]uuid.UUID, error) {
	skip := make(map[uuid.UUID]struct{}, len(ask.Full)+len(seen.destinations))
	for _, id := range ask.Full {
		skip[id] = struct{}{}
	}
	var ids []uuid.UUID
	add := func(id uuid.UUID) {
		if _, skipped := skip[id]; !skipped {
			ids = append(ids, id)
			skip[id] = struct{}{}
		}
	}
	for _, id := range seen.destinations {
		add(id)
	}
	if !seen.more {
		clear(r.known)
		shuffle(ids)
		return ids, nil
	}
	if err := r.walk(ctx, pool, now); err != nil {
		return nil, err
	}
	enough := len(ids) + maxAsked
	for id := range r.known {
		if len(ids) == enough {
			break
		}
		add(id)
	}
	for _, id := range seen.destinations { // the next look may see only what is newer
		r.know(id)
	}
	shuffle(ids)
	return ids, nil
}

func shuffle(ids []uuid.UUID) {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
}

// know remembers a destination, in the place of any other if they are many.
func (r *round) know(id uuid.UUID) {
	if r.known == nil {
		r.known = map[uuid.UUID]struct{}{}
	}
	r.known[id] = struct{}{}
	for other := range r.known {
		if len(r.known) <= maxKnown {
			return
		}
		delete(r.known, other)
	}
}

// learn forgets those of which a claim that had room for more took nothing.
func (r *round) learn(asked []uuid.UUID, taken []Claimed, limit int) {
	if len(r.known) == 0 || len(taken) >= limit {
		return
	}
	came := make(map[uuid.UUID]struct{}, len(taken))
	for _, c := range taken {
		came[c.Destination] = struct{}{}
	}
	for _, id := range asked {
		if _, more := came[id]; !more {
			delete(r.known, id)
		}
	}
}

// walk visits the next destinations.
func (r *round) walk(ctx context.Context, pool *pgxpool.Pool, now time.Time) error {
	began := time.Now()
	if began.Sub(r.ended) < pauseFactor*r.took {
		return nil
	}
	var batch pgx.Batch
	batch.Queue(planByIndex)
	ended, last := true, r.after
	batch.Queue(r.kind.walk(), now, r.after, maxVisited).Query(func(rows pgx.Rows) error {
		var (
			id      uuid.UUID
			visited int
			due     bool
		)
		_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), &visited, &due}, func() error {
			if due {
				r.know(id)
			}
			if visited == maxVisited {
				ended, last = false, id
			}
			return nil
		})
		return err
	})
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("look for destinations with due deliveries: %w", err)
	}
	if r.after = last; ended {
		r.after = uuid.Nil
	}
	r.ended = time.Now()
	r.took = r.ended.Sub(began)
	return nil
}

// walk visits the destinations that follow one, by the first entry of each in the index.
//
//	$1 now  $2 the one before  $3 how many
func (k kind) walk() string {
	return fmt.Sprintf(`
	WITH RECURSIVE round AS (
		(SELECT destination, available_at, 1 AS visited FROM deliveries.due WHERE %[1]s AND destination > $2
			ORDER BY destination, available_at LIMIT 1)
		UNION ALL
		SELECT n.destination, n.available_at, round.visited + 1 FROM round CROSS JOIN LATERAL (
			SELECT destination, available_at FROM deliveries.due WHERE %[1]s AND destination > round.destination
			ORDER BY destination, available_at LIMIT 1) n
		WHERE round.visited < $3
	), visited AS (
		SELECT destination, visited, available_at <= $1
			AND coalesce((SELECT %[2]s FROM destinations.destinations t WHERE t.id = round.destination), false) AS due
		FROM round
	)
	SELECT destination, visited, due FROM visited WHERE due OR visited = $3`, k.rows, k.eligible)
}
