package deliveries

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/column"
)

// A delivery that is due before its event has reached the read model of publications is put back for this long.
const putBack = 250 * time.Millisecond

// Ask limits a claim. It has the fields of a deliverer's room, which is converted to it.
type Ask struct {
	Limit          int
	PerDestination int
	Full           []uuid.UUID
	Slow           []uuid.UUID
	PerSlow        int
	Over           []uuid.UUID
	Bytes          int
	BytesOf        map[uuid.UUID]int
}

// Claimer claims for one worker. It is not for several goroutines at one time.
type Claimer struct {
	pool               *pgxpool.Pool
	worker             int32
	replays, automatic round
	again              time.Time // when the deliveries are due that the last claim put back
}

// NewClaimer makes the claimer of a worker.
func NewClaimer(pool *pgxpool.Pool, worker int32) *Claimer {
	return &Claimer{
		pool:      pool,
		worker:    worker,
		replays:   round{kind: replays},
		automatic: round{kind: automatic},
	}
}

// Claim leases free deliveries that a look saw due to the worker. If the limits don't suffice for all, each destination
// gets an equal share, and chance decides which destinations come first. Destinations that aren't enabled get replays
// only. Any number of workers may claim at once.
//
// The cost depends on the claimed deliveries and on the number of destinations with something due, up to a bound; not
// on how much is waiting, nor on the history. If more is due than a look sees, it may take several claims until each
// destination had its turn.
func (c *Claimer) Claim(ctx context.Context, ask Ask, lease time.Duration, seen Seen) ([]Claimed, error) {
	if ask.Limit < 1 || ask.PerDestination < 1 {
		return nil, nil
	}
	now := seen.at
	c.again = time.Time{}
	again, err := c.replays.candidates(ctx, c.pool, seen.replays, ask, now)
	if err != nil {
		return nil, err
	}
	due, err := c.automatic.candidates(ctx, c.pool, seen.automatic, ask, now)
	if err != nil || len(again)+len(due) == 0 {
		return nil, err
	}
	claimed, first, err := c.take(ctx, ask, again, due, now, now.Add(lease))
	if err != nil || len(claimed) == 0 {
		return nil, err
	}
	if len(claimed) > ask.Limit { // replays and automatic ones each kept to it
		kept, surplus := halve(claimed, first, ask.Limit)
		if err := Release(ctx, c.pool, c.worker, ids(surplus)); err != nil {
			return nil, err
		}
		claimed = kept
	}
	if claimed, err = c.load(ctx, ask, claimed); err != nil {
		return nil, err
	}
	complete, early := split(claimed)
	if len(early) > 0 {
		c.again = now.Add(putBack)
	}
	if err := release(ctx, c.pool, c.worker, ids(early), now.Add(putBack)); err != nil {
		return nil, errors.Join(err, Release(context.WithoutCancel(ctx), c.pool, c.worker, ids(complete)))
	}
	return complete, nil
}

// Again returns when the deliveries are due that the last claim put back, which the look before it does not know; zero
// means that there are none.
func (c *Claimer) Again() time.Time { return c.again }

// load reads what claimed deliveries are to be sent with, as far as there is memory for it, and releases the others.
func (c *Claimer) load(ctx context.Context, ask Ask, claimed []Claimed) (kept []Claimed, err error) {
	large, err := load(ctx, c.pool, claimed)
	kept = claimed
	if err == nil && len(large) > 0 {
		var surplus []Claimed
		kept, surplus = ask.fit(claimed, large)
		if err = loadData(ctx, c.pool, kept, large); err == nil {
			err = Release(ctx, c.pool, c.worker, ids(surplus))
		}
	}
	if err != nil {
		return nil, errors.Join(err, Release(context.WithoutCancel(ctx), c.pool, c.worker, ids(claimed)))
	}
	return kept, nil
}

// take claims of some destinations, up to the limit of replays, which come first, and as many others.
func (c *Claimer) take(
	ctx context.Context, ask Ask, again, due []uuid.UUID, now, until time.Time,
) (claimed []Claimed, first int, err error) {
	shared := events{}
	// The statements of a batch are one transaction. It is on disk before anything of it is sent: a claim that a crash
	// of Postgres takes back would be made, and sent, once more.
	var batch pgx.Batch
	batch.Queue(planByIndex)
	queue := func(sql string, among []uuid.UUID) *[]Claimed {
		var taken []Claimed
		if len(among) > 0 {
			batch.Queue(sql, now, column.UUIDs(among), ask.Limit, ask.PerDestination, c.worker, until,
				named(ask.Slow), ask.PerSlow, named(ask.Over)).
				Query(func(rows pgx.Rows) (err error) {
					taken, err = pgx.CollectRows(rows, shared.scan)
					return err
				})
		}
		return &taken
	}
	replays, others := queue(claimReplays, again), queue(claimAutomatic, due)
	if err := c.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("claim deliveries: %w", err)
	}
	c.replays.learn(again, *replays, ask.Limit)
	c.automatic.learn(due, *others, ask.Limit)
	return slices.Concat(*replays, *others), len(*replays), nil
}

// halve keeps to a limit: half of it are replays, which come first in the claim, and half are due by the schedule; an
// unused part goes to the other half. So a bulk replay delays no retries.
func halve(claimed []Claimed, replays, limit int) (kept, surplus []Claimed) {
	first := min(replays, max(limit/2, limit-(len(claimed)-replays)))
	last := replays + limit - first
	return slices.Concat(claimed[:first], claimed[replays:last]), slices.Concat(claimed[first:replays], claimed[last:])
}

// split separates deliveries that can't be sent yet, or never again: the read model of publications goes its own pace.
func split(claimed []Claimed) (complete, early []Claimed) {
	complete = make([]Claimed, 0, len(claimed))
	for _, c := range claimed {
		if c.Event.ID == uuid.Nil {
			early = append(early, c)
			continue
		}
		complete = append(complete, c)
	}
	return complete, early
}

// claim takes free rows of destinations, the first ones first.
//
//	$1 now  $2 destinations  $3 limit  $4 per destination  $5 worker  $6 end of the lease
//	$7 slow destinations  $8 per slow destination  $9 organizations that get nothing
func (k kind) claim() string {
	return fmt.Sprintf(`
	WITH ready AS MATERIALIZED (
		SELECT among.destination FROM unnest($2::uuid[]) among(destination)
		WHERE (SELECT %[2]s AND t.organization <> ALL($9::uuid[]) FROM destinations.destinations t
		WHERE t.id = among.destination)
			AND (SELECT true FROM deliveries.due WHERE %[1]s AND due.destination = among.destination AND due.available_at <= $1
			LIMIT 1)
		LIMIT $3
	), share AS MATERIALIZED (
		SELECT least($4::bigint, greatest(1, ($3::bigint + count(*) - 1) / greatest(1, count(*)))) AS size FROM ready
	), picked AS MATERIALIZED (
		SELECT due.id FROM share CROSS JOIN ready CROSS JOIN LATERAL (
			SELECT id FROM deliveries.due
			WHERE %[1]s AND due.destination = ready.destination AND due.available_at <= $1
			ORDER BY available_at
			LIMIT CASE WHEN ready.destination = ANY($7::uuid[]) THEN least(share.size, $8::bigint) ELSE share.size END
			FOR UPDATE SKIP LOCKED) due
		LIMIT $3
	), taken AS (
		UPDATE deliveries.due SET worker = $5, available_at = $6 FROM picked WHERE due.id = picked.id
		RETURNING due.id, due.destination, due.due_at, due.available_at, due.replay
	)
	SELECT taken.*, d.organization, d.event_id, d.attempts, d.automatic, d.revision, d.subscriptions
	FROM taken JOIN deliveries.deliveries d ON d.id = taken.id`, k.rows, k.eligible)
}

var claimReplays, claimAutomatic = replays.claim(), automatic.claim()

// named makes a parameter of ids: never NULL, which would match nothing.
func named(ids []uuid.UUID) column.UUIDs { return append(column.UUIDs{}, ids...) }

// Release frees deliveries that a worker holds and has not attempted. Others are not changed.
func Release(ctx context.Context, pool *pgxpool.Pool, worker int32, ids []uuid.UUID) error {
	return release(ctx, pool, worker, ids, time.Time{})
}

// release frees deliveries, not to be claimed before a time.
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
