package deliveries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/destination"
	"carillon/projections/column"
)

// A delivery that is due before its event has reached the read model of publications is put back for this long.
const putBack = time.Second

// Ask says what a claim may take.
type Ask struct {
	Limit          int           // deliveries in all
	PerDestination int           // deliveries of one destination
	Lease          time.Duration // for which they are held
	Full           []uuid.UUID   // destinations of which nothing is taken
	Slow           []uuid.UUID   // destinations of which PerSlow are taken
	PerSlow        int
	Over           []uuid.UUID // organizations of which nothing is taken
}

// Claim hands due deliveries that nobody holds to a worker. Where the limits don't suffice for all, each destination
// gets an equal share, and chance decides which destinations come first. Destinations that aren't enabled get replays
// only. Any number of workers may claim at once.
//
// The cost depends on what is claimed and on how many destinations have something waiting, not on how much is waiting
// and not on the history.
func Claim(ctx context.Context, pool *pgxpool.Pool, worker int32, ask Ask, now time.Time) ([]Claimed, error) {
	if ask.Limit < 1 || ask.PerDestination < 1 {
		return nil, nil
	}
	limits := []any{
		now, named(ask.Full), uuid.New(), ask.Limit, ask.PerDestination, worker, now.Add(ask.Lease), named(ask.Slow), ask.PerSlow, named(ask.Over),
	}
	var (
		claimed []Claimed
		replays int // of them, the first ones
		wants   = wanted{targets: map[uuid.UUID]*destination.Target{}, events: map[uuid.UUID]*Event{}}
		batch   pgx.Batch
	)
	collect := func(rows pgx.Rows) error {
		taken, err := pgx.CollectRows(rows, wants.scan)
		claimed = append(claimed, taken...)
		return err
	}
	// The statements of a batch are one transaction. It is on disk before anything of it is sent: a claim that a crash
	// of Postgres takes back would be made, and sent, once more.
	batch.Queue(planByIndex)
	batch.Queue(claimReplays, limits...).Query(func(rows pgx.Rows) error {
		err := collect(rows)
		replays = len(claimed)
		return err
	})
	batch.Queue(claimAutomatic, limits...).Query(collect)
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("claim deliveries: %w", err)
	}
	if len(claimed) == 0 {
		return nil, nil
	}
	if len(claimed) > ask.Limit { // replays and automatic ones each kept to it
		kept, surplus := halve(claimed, replays, ask.Limit)
		if err := Release(ctx, pool, worker, ids(surplus)); err != nil {
			return nil, err
		}
		claimed = kept
	}
	if err := wants.load(ctx, pool, now); err != nil {
		return nil, errors.Join(err, Release(context.WithoutCancel(ctx), pool, worker, ids(claimed)))
	}
	complete, early := split(claimed)
	if err := release(ctx, pool, worker, ids(early), now.Add(putBack)); err != nil {
		return nil, errors.Join(err, Release(context.WithoutCancel(ctx), pool, worker, ids(complete)))
	}
	return complete, nil
}

// halve keeps to a limit: half of it are replays, which come first in what was claimed, and half what is due by the
// schedule; what the ones leave the others get. So that somebody sends everything again holds back nobody's retries.
func halve(claimed []Claimed, replays, limit int) (kept, surplus []Claimed) {
	first := min(replays, max(limit/2, limit-(len(claimed)-replays)))
	last := replays + limit - first
	return slices.Concat(claimed[:first], claimed[replays:last]), slices.Concat(claimed[first:replays], claimed[last:])
}

// split tells apart what can't be sent yet, or never again: the read models of destinations and publications go their
// own pace.
func split(claimed []Claimed) (complete, early []Claimed) {
	complete = make([]Claimed, 0, len(claimed))
	for _, c := range claimed {
		if c.Target.ID == uuid.Nil || c.Event.ID == uuid.Nil {
			early = append(early, c)
			continue
		}
		complete = append(complete, c)
	}
	return complete, early
}

// claim takes rows of one of the two indexes of free rows. It goes round the destinations that have something there,
// from a random one on, by reading the first entry of each.
//
//	$1 now  $2 full  $3 where to begin  $4 limit  $5 per destination  $6 worker  $7 end of the lease
//	$8 slow destinations  $9 per slow destination  $10 organizations that get nothing
func claim(index, eligible string) string {
	return `
	WITH RECURSIVE above AS (
		(SELECT destination, available_at FROM deliveries.due WHERE ` + index + ` AND destination >= $3
			ORDER BY destination, available_at LIMIT 1)
		UNION ALL
		SELECT n.* FROM above CROSS JOIN LATERAL (
			SELECT destination, available_at FROM deliveries.due WHERE ` + index + ` AND destination > above.destination
			ORDER BY destination, available_at LIMIT 1) n
	), below AS (
		(SELECT destination, available_at FROM deliveries.due WHERE ` + index + ` AND destination < $3
			ORDER BY destination, available_at LIMIT 1)
		UNION ALL
		SELECT n.* FROM below CROSS JOIN LATERAL (
			SELECT destination, available_at FROM deliveries.due
			WHERE ` + index + ` AND destination > below.destination AND destination < $3
			ORDER BY destination, available_at LIMIT 1) n
	), ready AS MATERIALIZED (
		SELECT round.destination FROM (SELECT * FROM above UNION ALL SELECT * FROM below) round
		WHERE round.available_at <= $1 AND round.destination <> ALL($2::uuid[])
			AND (SELECT ` + eligible + ` AND t.organization <> ALL($10::uuid[])
				FROM destinations.destinations t WHERE t.id = round.destination)
		LIMIT $4
	), share AS MATERIALIZED (
		SELECT least($5::bigint, greatest(1, ($4::bigint + count(*) - 1) / greatest(1, count(*)))) AS size FROM ready
	), picked AS MATERIALIZED (
		SELECT due.id FROM share CROSS JOIN ready CROSS JOIN LATERAL (
			SELECT id FROM deliveries.due
			WHERE ` + index + ` AND due.destination = ready.destination AND due.available_at <= $1
			ORDER BY available_at
			LIMIT CASE WHEN ready.destination = ANY($8::uuid[]) THEN least(share.size, $9::bigint) ELSE share.size END
			FOR UPDATE SKIP LOCKED) due
		LIMIT $4
	), taken AS (
		UPDATE deliveries.due SET worker = $6, available_at = $7 FROM picked WHERE due.id = picked.id
		RETURNING due.id, due.destination, due.due_at, due.available_at, due.replay
	)
	SELECT taken.*, d.event_id, d.attempts, d.automatic, d.revision
	FROM taken JOIN deliveries.deliveries d ON d.id = taken.id`
}

// named makes a parameter of ids: never NULL, which would match nothing.
func named(ids []uuid.UUID) column.UUIDs { return append(column.UUIDs{}, ids...) }

// The conditions of the partial indexes.
const (
	freeAutomatic = "worker IS NULL AND replay IS NULL"
	freeReplay    = "worker IS NULL AND replay IS NOT NULL"
)

var (
	claimAutomatic = claim(freeAutomatic, "t.status = 'enabled'")
	claimReplays   = claim(freeReplay, "true")
)

// Look lists the workers that hold deliveries, and says when the first of all deliveries can be claimed, which may be long
// ago; the zero time where there is none. It is one round trip, on which what else a batch asks goes along.
func Look(ctx context.Context, pool *pgxpool.Pool, along *pgx.Batch) (holders []Holder, first time.Time, err error) {
	along.Queue(planByIndex)
	along.Queue(holding).Query(func(rows pgx.Rows) (err error) {
		holders, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Holder])
		return err
	})
	always := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
	along.Queue(nextDue, always).QueryRow(func(row pgx.Row) error { return row.Scan(column.Time(&first)) })
	if err := pool.SendBatch(ctx, along).Close(); err != nil {
		return nil, time.Time{}, fmt.Errorf("look for due deliveries: %w", err)
	}
	return holders, first, nil
}

// NextDue says when, after now, the next delivery can be claimed: of an enabled destination, a replay, or one whose
// lease ends. A worker that has claimed until nothing more came can sleep until then.
func NextDue(ctx context.Context, pool *pgxpool.Pool, now time.Time) (time.Time, bool, error) {
	var (
		batch pgx.Batch
		next  time.Time
	)
	batch.Queue(planByIndex)
	batch.Queue(nextDue, now).QueryRow(func(row pgx.Row) error { return row.Scan(column.Time(&next)) })
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return time.Time{}, false, fmt.Errorf("next due delivery: %w", err)
	}
	return next, !next.IsZero(), nil
}

const nextDue = `
	WITH RECURSIVE round AS (
		(SELECT destination FROM deliveries.due WHERE ` + freeAutomatic + ` ORDER BY destination LIMIT 1)
		UNION ALL
		SELECT n.destination FROM round CROSS JOIN LATERAL (
			SELECT destination FROM deliveries.due WHERE ` + freeAutomatic + ` AND destination > round.destination
			ORDER BY destination LIMIT 1) n
	), workers AS (
		(SELECT worker FROM deliveries.due WHERE worker IS NOT NULL ORDER BY worker LIMIT 1)
		UNION ALL
		SELECT n.worker FROM workers CROSS JOIN LATERAL (
			SELECT worker FROM deliveries.due WHERE worker > workers.worker ORDER BY worker LIMIT 1) n
	)
	SELECT least(
		(SELECT min((SELECT available_at FROM deliveries.due
				WHERE ` + freeAutomatic + ` AND due.destination = round.destination AND available_at > $1
				ORDER BY available_at LIMIT 1))
			FROM round
			WHERE (SELECT t.status = 'enabled' FROM destinations.destinations t WHERE t.id = round.destination)),
		(SELECT min(available_at) FROM deliveries.due WHERE ` + freeReplay + ` AND available_at > $1),
		(SELECT min((SELECT available_at FROM deliveries.due WHERE due.worker = workers.worker AND available_at > $1
				ORDER BY available_at LIMIT 1))
			FROM workers))`

// Release gives back deliveries that a worker holds and has not attempted. Those that it holds no longer stay as they
// are.
func Release(ctx context.Context, pool *pgxpool.Pool, worker int32, ids []uuid.UUID) error {
	return release(ctx, pool, worker, ids, time.Time{})
}

// release gives back, but for nobody to take before a time.
func release(ctx context.Context, pool *pgxpool.Pool, worker int32, ids []uuid.UUID, notBefore time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	// A row that is locked is about to get an outcome or another holder: nothing to give back.
	_, err := pool.Exec(ctx, `
		WITH held AS (SELECT id FROM deliveries.due WHERE id = ANY($1) AND worker = $2 FOR UPDATE SKIP LOCKED)
		UPDATE deliveries.due SET worker = NULL, available_at = greatest(due_at, $3) FROM held WHERE due.id = held.id`,
		column.UUIDs(ids), worker, notBefore)
	if err != nil {
		return fmt.Errorf("release deliveries: %w", err)
	}
	return nil
}

func ids(claimed []Claimed) []uuid.UUID {
	ids := make([]uuid.UUID, len(claimed))
	for i := range claimed {
		ids[i] = claimed[i].ID
	}
	return ids
}
