package adapters

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
)

const (
	// A process takes the tokens of this part of a second at once, so that Postgres is asked that often at most.
	tokenShare = 20
	tokenHold  = time.Second // how long it keeps what it has not used
	tokenWait  = time.Second // for Postgres
	heldOrgs   = 10_000      // organizations that are remembered
)

// RequestRate allows each organization a number of requests a second, on all nodes together: a token bucket in Postgres
// that holds a second's worth, from which each process takes some ahead. A process costs it one short question in 50
// ms, however many requests there are, and none for requests that are refused. If Postgres does not answer, requests
// pass: their own queries will fail.
type RequestRate struct {
	Pool *pgxpool.Pool
	Now  func() time.Time
	// Refused counts refusals. Optional.
	Refused func(organization.Limit)

	mu  sync.Mutex
	all map[uuid.UUID]*tokens
}

// tokens are what this process holds of one organization's.
type tokens struct {
	mu    sync.Mutex
	left  float64
	until time.Time // when they are given up
	empty time.Time // until when the bucket is known to be empty
}

// takeTokens is one statement, so that two nodes never take the same tokens. It goes by the clock of Postgres, because
// those of the nodes differ. Statements that waited for one another come a little late; a row more than ten seconds
// ahead was written by a clock that has been put back since.
//
//	$1 organization  $2 tokens a second, and at most  $3 how many are wanted
const takeTokens = `
	INSERT INTO carillon.request_tokens AS t (organization, left_over, granted, at)
	VALUES ($1, $2::float8 - floor(least($2::float8, $3::float8)), floor(least($2::float8, $3::float8)), clock_timestamp())
	ON CONFLICT (organization) DO UPDATE SET
		left_over = ` + filled + ` - floor(least($3, ` + filled + `)), granted = floor(least($3, ` + filled + `)),
		at = CASE WHEN t.at > excluded.at + interval '10 seconds' THEN excluded.at ELSE greatest(t.at, excluded.at) END
	RETURNING granted`

// filled is the present content of the bucket.
const filled = "least($2, t.left_over + $2 * greatest(0, extract(epoch FROM excluded.at - t.at)::float8))"

// Take counts a request of an organization with a limit per second. wait is the time until the next try if it exceeds
// the limit.
func (r *RequestRate) Take(ctx context.Context, of uuid.UUID, perSecond int64) (wait time.Duration, err error) {
	if wait, err = r.take(ctx, of, perSecond); wait > 0 && r.Refused != nil {
		r.Refused(organization.LimitRequestsPerSecond)
	}
	return wait, err
}

func (r *RequestRate) take(
	ctx context.Context, organization uuid.UUID, perSecond int64,
) (wait time.Duration, err error) {
	t := r.of(organization)
	t.mu.Lock()
	defer t.mu.Unlock()
	now := r.Now()
	if t.left >= 1 && now.Before(t.until) {
		t.left--
		return 0, nil
	}
	if now.Before(t.empty) {
		return time.Second, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenWait)
	defer cancel()
	wanted := max(1, float64(perSecond)/tokenShare)
	var got float64
	if err := r.Pool.QueryRow(ctx, takeTokens, organization, float64(perSecond), wanted).Scan(&got); err != nil {
		t.left, t.until = wanted, now.Add(tokenHold)
		return 0, fmt.Errorf("count requests: %w", err)
	}
	if got < 1 {
		t.empty = now.Add(time.Second / tokenShare)
		return time.Second, nil
	}
	t.left, t.until = got-1, now.Add(tokenHold)
	return 0, nil
}

func (r *RequestRate) of(organization uuid.UUID) *tokens {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= heldOrgs {
		r.all = map[uuid.UUID]*tokens{}
	}
	if r.all[organization] == nil {
		r.all[organization] = &tokens{}
	}
	return r.all[organization]
}
