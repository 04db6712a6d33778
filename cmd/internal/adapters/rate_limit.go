package adapters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command"
)

// Limiter allows a number of requests of each organization in a window. The window begins with its first request.
type Limiter struct {
	Pool   *pgxpool.Pool
	Bucket string // what is counted; limits of different buckets don't touch each other
	Limit  int
	Window time.Duration
	Now    func() time.Time
}

// NewCheckLimiter makes the limit of the routes that send a request to an address of the caller's choice.
func NewCheckLimiter(pool *pgxpool.Pool, now func() time.Time) *Limiter {
	return &Limiter{Pool: pool, Bucket: "checks", Limit: 10, Window: time.Minute, Now: now}
}

// count is one statement, so that two nodes never count from the same value. Requests over the limit aren't counted.
const count = `
	INSERT INTO carillon.rate_limits AS r (organization, bucket, window_start, count) VALUES ($1, $2, $3, 1)
	ON CONFLICT (organization, bucket) DO UPDATE SET
		window_start = CASE WHEN r.window_start <= $4 THEN excluded.window_start ELSE r.window_start END,
		count = CASE WHEN r.window_start <= $4 THEN 1 ELSE least(r.count + 1, $5 + 1) END
	RETURNING window_start, count`

// Take counts a request. A refused one gets a command.Refusal of kind RateLimited that says when to come again; when
// the counters can't be reached, the error wraps command.ErrUnavailable.
func (l *Limiter) Take(ctx context.Context, organization uuid.UUID) error {
	now := l.Now().UTC()
	var start time.Time
	var taken int
	err := l.Pool.QueryRow(ctx, count, organization, l.Bucket, now, now.Add(-l.Window), l.Limit).Scan(&start, &taken)
	if err != nil {
		return fmt.Errorf("count requests: %w: %w", command.ErrUnavailable, err)
	}
	if taken <= l.Limit {
		return nil
	}
	wait := max(start.Add(l.Window).Sub(now), time.Second)
	return &command.Refusal{
		Kind: command.RateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("more than %d requests in %s; try again in %d s", l.Limit, l.Window, int(wait.Round(time.Second).Seconds())),
	}
}
