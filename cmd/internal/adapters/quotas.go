package adapters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/feeds"
	"carillon/projections/sessionlock"
	"carillon/projections/subscriptions"
)

// Quotas is command.Quotas on Postgres: the counts of the read models, and later claims.
type Quotas struct {
	Pool  *pgxpool.Pool
	Locks *sessionlock.Locks
	Log   *slog.Logger
	// Refused counts refusals by limit. Optional.
	Refused func(organization.Limit)
	// TurnWait limits the wait for a turn; 0 means five seconds.
	TurnWait time.Duration
}

var _ command.Quotas = (*Quotas)(nil)

// counted is the SQL of a limit's count: the ids of an organization ($1) with n, how much each counts, and the read
// model that they are in.
type counted struct{ ids, readModel string }

var countedBy = complete(map[organization.Limit]counted{
	organization.LimitDestinations: {"SELECT id, 1 AS n FROM destinations.destinations WHERE organization = $1",
		destinations.ReadModel.Name},
	organization.LimitSubscriptions: {
		"SELECT id, 1 AS n FROM subscriptions.subscriptions WHERE organization = $1", subscriptions.ReadModel.Name,
	},
	organization.LimitPatternsAndPins: { // see command.PatternsClaim
		fmt.Sprintf(`SELECT encode(set_byte(uuid_send(id), 0, get_byte(uuid_send(id), 0) # %d), 'hex')::uuid AS id,
			cardinality(event_types) + jsonb_array_length(feeds) AS n FROM subscriptions.subscriptions WHERE organization = $1`,
			command.PatternsMask),
		subscriptions.ReadModel.Name,
	},
	organization.LimitFeeds: {"SELECT id, 1 AS n FROM feeds.feeds WHERE organization = $1 AND feed_type = 'event'",
		feeds.ReadModel.Name},
	organization.LimitSources: {
		"SELECT a.id, 1 AS n FROM feeds.feeds f JOIN feeds.associations a ON a.feed_id = f.id WHERE f.organization = $1",
		feeds.ReadModel.Name,
	},
	organization.LimitRedeliveries: { // a replay is claimed by the id of its run
		"SELECT coalesce(u.replay, u.id) AS id, 1 AS n FROM destinations.destinations d JOIN deliveries.due u " +
			"ON u.destination = d.id WHERE d.organization = $1",
		deliveries.ReadModel.Name,
	},
})

// complete panics, so that the program does not start, if a limit of a number of things has no counter. Keys are
// counted by their aggregate, rates by a Limiter.
func complete(by map[organization.Limit]counted) map[organization.Limit]counted {
	for _, d := range organization.Definitions() {
		if _, known := by[d.Limit]; d.Window == 0 && d.Limit != organization.LimitKeys && !known {
			panic(fmt.Sprintf("limit %s: nothing counts it", d.Limit))
		}
	}
	return by
}

// limitOf is an organization's ($1) configured limit, or NULL.
const limitOf = "SELECT (limits->>%s)::bigint FROM organizations.organizations WHERE id = $1"

// Claim implements command.Quotas. Those who claim for one organization take turns, so that two never count the same
// room. A crash of Postgres may forget a claim that was made just before.
func (q *Quotas) Claim(ctx context.Context, of uuid.UUID, limit organization.Limit, id uuid.UUID, amount int) error {
	by := countedBy[limit]
	fallback := organization.Defaults()[limit]
	var batch pgx.Batch // one transaction
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1::text || $2, 7))", of, limit)
	batch.Queue(`DELETE FROM carillon.quota_claims WHERE organization = $1 AND kind = $2
		AND CASE WHEN position IS NULL THEN claimed_at NOT BETWEEN now() - interval '10 minutes'
		AND now() + interval '1 minute'
			ELSE position <= (SELECT commit FROM carillon.checkpoints WHERE name = $3) END`, of, limit, by.readModel)
	var most int64
	batch.Queue(fmt.Sprintf("SELECT coalesce(("+limitOf+"), $3::bigint)", "$2"), of, limit, fallback).
		QueryRow(func(row pgx.Row) error { return row.Scan(&most) })
	made := false
	batch.Queue(fmt.Sprintf(`WITH held AS MATERIALIZED (%s)
		INSERT INTO carillon.quota_claims (id, organization, kind, amount) SELECT $2, $1, $3, $4::integer
		WHERE $4::bigint + (SELECT coalesce(sum(n), 0) FROM held WHERE id <> $2)
			+ (SELECT coalesce(sum(greatest(c.amount - coalesce(h.n, 0), 0)), 0) FROM carillon.quota_claims c LEFT
			JOIN held h USING (id)
				WHERE c.organization = $1 AND c.kind = $3 AND id <> $2)
			<= coalesce((`+limitOf+`), $5::bigint)
		ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount, claimed_at = now(), position = NULL RETURNING true`, by.ids,
		"$3"), of, id, limit, amount, fallback).
		QueryRow(func(row pgx.Row) error {
			err := row.Scan(&made)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			return err
		})
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("count %s: %w: %w", limit, command.ErrUnavailable, err)
	}
	if !made {
		return q.refusal(&organization.LimitError{Limit: limit, Most: int(most)})
	}
	return nil
}

// refusal counts a limit that is reached; other errors are returned unchanged.
func (q *Quotas) refusal(err error) error {
	if reached, ok := errors.AsType[*organization.LimitError](err); ok && q.Refused != nil {
		q.Refused(reached.Limit)
	}
	return err
}

// Confirm implements command.Quotas. If it can't, the claim counts for ten minutes.
func (q *Quotas) Confirm(ctx context.Context, id uuid.UUID, at eventstore.Position) {
	statement, args := "UPDATE carillon.quota_claims SET position = $2 WHERE id = $1",
		[]any{id, int64(at.Commit)} //nolint:gosec // a position in a log
	if at == eventstore.Start {
		statement, args = "DELETE FROM carillon.quota_claims WHERE id = $1", args[:1]
	}
	var batch pgx.Batch
	batch.Queue("SELECT set_config('synchronous_commit', 'off', true)")
	batch.Queue(statement, args...)
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		q.Log.WarnContext(ctx, "claim against a limit not confirmed; it counts for ten minutes", "error", err)
	}
}

// Spend implements command.Quotas.
func (q *Quotas) Spend(
	ctx context.Context, of uuid.UUID, limit organization.Limit, n int,
) (time.Duration, error) {
	got, err := Limiter{q.Pool, limit.Definition()}.count(ctx, of, n)
	return got.wait, q.refusal(err)
}

const turnWait = 5 * time.Second

// Turn implements command.Quotas. The turn of a process that is killed ends with its session.
func (q *Quotas) Turn(ctx context.Context, of uuid.UUID) (release func(), granted bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, cmp.Or(q.TurnWait, turnWait))
	defer cancel()
	lock, err := q.Locks.Acquire(waiting, turnKey(of))
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		err = sessionlock.ErrHeld
		if q.Refused != nil {
			q.Refused(organization.BoundBackfills)
		}
	}
	return turnOf(lock, err)
}

// TryTurn implements command.Quotas.
func (q *Quotas) TryTurn(ctx context.Context, of uuid.UUID) (release func(), granted bool, err error) {
	return turnOf(q.Locks.TryAcquire(ctx, turnKey(of)))
}

func turnKey(of uuid.UUID) sessionlock.Key {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, "backfill of ", of) // never fails
	return sessionlock.Key(h.Sum64())        //nolint:gosec // any 64 bits will do
}

func turnOf(lock *sessionlock.Lock, err error) (release func(), granted bool, _ error) {
	switch {
	case err == nil:
		return lock.Release, true, nil
	case errors.Is(err, sessionlock.ErrHeld):
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("take a turn: %w: %w", command.ErrUnavailable, err)
}
