package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/source"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/projections/column"
)

// Walks is visiting.Walks in Postgres, by whose clock turns go.
type Walks struct {
	// Log gets turns planned by a clock that was ahead. Optional.
	Log *slog.Logger

	pool  *pgxpool.Pool
	swept time.Time
}

var _ visiting.Walks = (*Walks)(nil)

// NewWalks makes Walks. One Monitor uses them.
func NewWalks(pool *pgxpool.Pool) *Walks { return &Walks{pool: pool} }

// sweepInterval is the time between two looks at all sources, for those of which nothing is remembered.
const sweepInterval = time.Minute

const (
	// Requested walks begin at once; a stalled one is tried once.
	takeOverWishes = `
		UPDATE carillon.source_walks w SET next_at = s.wanted_at FROM sources.sources s
		WHERE s.wanted_at IS NOT NULL AND w.source_id = s.id AND s.wanted_at IS DISTINCT FROM w.served_at
		AND w.next_at > s.wanted_at
			AND (NOT w.walking OR w.attempted_at < s.wanted_at)`
	// A source that is resumed is visited at once.
	takeOverResumed = `
		UPDATE carillon.source_walks w SET next_at = least(w.next_at, s.resumed_at), resumed_at = s.resumed_at
		FROM sources.sources s
		WHERE s.resumed_at IS NOT NULL AND w.source_id = s.id AND w.resumed_at IS DISTINCT FROM s.resumed_at
		AND w.next_at <> 'infinity'`
	// The happenings of new sources, and of those whose memory was lost, are known from the events alone.
	adopt = `
		WITH adopted AS (
			INSERT INTO carillon.source_walks (source_id, host, next_at, number, completed_at, interval_seconds, failures,
			observed)
			SELECT id, host, coalesce(wanted_at, due_at), collections, completed_at, interval_seconds, failures, observed
			FROM sources.sources s WHERE (feeds > 0 OR requested) AND %s
				AND NOT EXISTS (SELECT 1 FROM carillon.source_walks w WHERE w.source_id = s.id)
			ON CONFLICT (source_id) DO NOTHING RETURNING source_id)
		INSERT INTO carillon.source_views (source_id, happening_id, key, evidence, digest, waiting, restored_at)
		SELECT source_id, happening_id, '', ARRAY[happening_id], digest, false, clock_timestamp()
		FROM sources.shown JOIN adopted USING (source_id) WHERE NOT stale
		ON CONFLICT DO NOTHING`
	// Sources that no feed has wait permanently, and those that one has again don't.
	shelve = `
		UPDATE carillon.source_walks w SET next_at = CASE WHEN w.next_at <> 'infinity' THEN 'infinity'
			ELSE coalesce(w.completed_at + make_interval(secs => w.interval_seconds), clock_timestamp()) END
		FROM sources.sources s WHERE s.id = w.source_id AND (w.next_at = 'infinity') = (s.feeds > 0 OR s.requested)`
	// Plans by a clock that was ahead are corrected: turns last for a turn, and visits begin in time.
	bringBackTurns = `
		UPDATE carillon.source_walks SET held_until = least(held_until, clock_timestamp() + $1::interval),
			next_at = CASE WHEN next_at < 'infinity'
				THEN next_at - greatest(greatest(attempted_at, completed_at) - clock_timestamp(), interval '0') ELSE next_at END,
			attempted_at = least(attempted_at, clock_timestamp()), completed_at = least(completed_at, clock_timestamp())
		WHERE greatest(attempted_at, completed_at) > clock_timestamp() + interval '5 seconds'
			OR held_until > clock_timestamp() + $1::interval + interval '5 seconds'`
	lookForTurns = `
		SELECT source_id FROM (
			SELECT DISTINCT ON (w.host) w.source_id, w.next_at FROM carillon.source_walks w JOIN sources.sources s
			ON s.id = w.source_id
			WHERE w.next_at <= clock_timestamp() AND w.held_until <= clock_timestamp() AND (s.feeds > 0 OR s.requested)
			AND s.paused_at IS NULL
				AND w.host <> ALL ($2)
			ORDER BY w.host, w.next_at, w.source_id) due
		ORDER BY next_at, source_id LIMIT $1`
	takeTurns = `
		UPDATE carillon.source_walks w SET holder = gen_random_uuid(), held_until = clock_timestamp() + $2,
		attempted_at = clock_timestamp()
		FROM sources.sources s
		WHERE w.source_id = ANY ($1) AND s.id = w.source_id AND w.next_at <= clock_timestamp()
		AND w.held_until <= clock_timestamp() AND s.paused_at IS NULL
		RETURNING s.id, s.type, s.url, s.handle, s.timezone, s.settings, w.host, w.holder, w.number, w.walking,
			w.wanted,
			s.wanted_at IS NOT NULL AND s.wanted_at IS DISTINCT FROM w.served_at
				OR EXISTS (SELECT FROM sources.attachments a WHERE a.source_id = s.id AND a.backfilling),
			s.wanted_at, w.interval_seconds, w.failures, w.stumbles, w.tally, w.fresh,
			s.revision, s.state, s.outcome, s.collections, s.failures, s.interval_seconds, s.notes`
	holdTurns = `
		UPDATE carillon.source_walks SET held_until = clock_timestamp() + $2 WHERE holder = ANY ($1) RETURNING holder`
)

// turnLength is how long a visit may go without a heartbeat.
const turnLength = time.Minute

// Take implements visiting.Walks.
func (w *Walks) Take(ctx context.Context, limit int, busy []string) ([]visiting.Turn, error) {
	due, err := w.lookAround(ctx, limit, busy)
	if err != nil || len(due) == 0 {
		return nil, wrap("sources that are due", err)
	}
	rows, _ := w.pool.Query(ctx, takeTurns, due, turnLength)
	turns, err := pgx.CollectRows(rows, scanTurn)
	slices.SortFunc(turns, func(a, b visiting.Turn) int { // an update returns its rows in any order
		return slices.Index(due, a.Source.ID) - slices.Index(due, b.Source.ID)
	})
	return turns, wrap("turns at sources", err)
}

// lookAround takes over what the read model knows and the memory does not, and finds what is due then, in one round
// trip.
func (w *Walks) lookAround(ctx context.Context, limit int, busy []string) (due []uuid.UUID, err error) {
	var batch pgx.Batch
	batch.Queue(takeOverWishes)
	batch.Queue(takeOverResumed)
	sweep := time.Since(w.swept) >= sweepInterval
	if sweep {
		batch.Queue(fmt.Sprintf(adopt, "true"))
		batch.Queue(shelve)
		batch.Queue(bringBackTurns, turnLength).Exec(func(moved pgconn.CommandTag) error {
			if n := moved.RowsAffected(); n > 0 && w.Log != nil {
				w.Log.Warn("visits lay too far ahead, as a clock was ahead; brought back", "sources", n)
			}
			return nil
		})
	} else {
		batch.Queue(fmt.Sprintf(adopt, "wanted_at IS NOT NULL"))
	}
	batch.Queue(lookForTurns, limit, nonNil(busy)).Query(func(rows pgx.Rows) (err error) {
		due, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		return err
	})
	err = w.pool.SendBatch(ctx, &batch).Close()
	if err == nil && sweep {
		w.swept = time.Now()
	}
	return due, err
}

func scanTurn(row pgx.CollectableRow) (visiting.Turn, error) {
	var (
		t                          visiting.Turn
		walking, wished            bool
		wish                       *time.Time
		interval, recordedInterval int
		revision                   int64
		state                      string
		recorded                   source.State
		tally, notes               []byte
	)
	err := row.Scan(&t.Source.ID, &t.Source.Type, &t.Source.URL, &t.Source.Handle, &t.Source.Timezone, &t.Source.Settings,
		&t.Host, &t.Holder, &t.Number,
		&walking, &t.Wanted, &wished, &wish, &interval, &t.Failures, &t.UnreadableInARow, &tally, column.UUID(&t.Unsettled),
		&revision, &state, &recorded.Outcome, &recorded.Started, &recorded.Failures, &recordedInterval, &notes)
	if err == nil {
		err = json.Unmarshal(notes, &recorded.Notes)
	}
	if err != nil {
		return t, err
	}
	recorded.Status, recorded.Type = source.StatusWaiting, t.Source.Type
	if state == "collecting" {
		recorded.Status = source.StatusCollecting
	}
	recorded.Interval = time.Duration(recordedInterval) * time.Second
	t.Interval = time.Duration(interval) * time.Second
	t.Recorded = eventstore.Loaded[source.State]{
		State:    recorded,
		Revision: eventstore.Revision(revision),
	} //nolint:gosec // it was one
	if !walking {
		t.Fresh, t.Number, t.Wanted, t.Wish = true, max(t.Number, recorded.Started)+1, wished, wish
		return t, nil
	}
	return t, json.Unmarshal(tally, &t.Tally)
}

// Hold implements visiting.Walks.
func (w *Walks) Hold(ctx context.Context, holders []uuid.UUID) (lost []uuid.UUID, err error) {
	rows, _ := w.pool.Query(ctx, holdTurns, holders, turnLength)
	held, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, wrap("keep turns", err)
	}
	return slices.DeleteFunc(slices.Clone(holders), func(holder uuid.UUID) bool {
		return slices.Contains(held, holder)
	}), nil
}

// Walk implements visiting.Walks.
func (w *Walks) Walk(turn visiting.Turn) visiting.Walk {
	return &walk{
		pool:   w.pool,
		source: turn.Source.ID,
		holder: turn.Holder,
		number: turn.Number,
		wanted: turn.Wanted,
		wish:   turn.Wish,
		fresh:  turn.Unsettled,
		left:   turn.Unsettled != uuid.Nil,
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
