package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command"
)

// Limiter allows a number of requests of each organization in a window. The window begins with its first request.
type Limiter struct {
	Pool   *pgxpool.Pool
	Bucket string // name of the limit; buckets are counted separately
	Limit  int
	Window time.Duration
	Now    func() time.Time
}

// NewCheckLimiter makes the limit of the routes that send a request to an address of the caller's choice.
func NewCheckLimiter(pool *pgxpool.Pool, now func() time.Time) *Limiter {
	return &Limiter{
		Pool:   pool,
		Bucket: "checks",
		Limit:  10,
		Window: time.Minute,
		Now:    now,
	}
}

// count is one statement, so that two nodes never count from the same value. Requests over the limit aren't counted, so
// that a limit that is raised has room at once: then it returns no row, or that of another node's request. Clocks of
// nodes differ by a minute at most: a window that begins later is of a clock that was ahead, and limits no
// organization.
const count = `
	WITH taken AS (
		INSERT INTO carillon.rate_limits AS r (organization, bucket, window_start, count)
		SELECT $1, $2, $3::timestamptz, $6::bigint
		WHERE $6::bigint <= $5::bigint
		ON CONFLICT (organization, bucket) DO UPDATE SET
			window_start = CASE WHEN ` + over + ` THEN excluded.window_start ELSE r.window_start END,
			count = CASE WHEN ` + over + ` THEN $6::bigint ELSE r.count + $6::bigint END
		WHERE ` + over + ` OR r.count + $6::bigint <= $5::bigint
		RETURNING window_start)
	SELECT true, window_start FROM taken
	UNION ALL SELECT false, window_start FROM carillon.rate_limits WHERE organization = $1 AND bucket = $2
	ORDER BY 1 DESC LIMIT 1`

// over reports whether a window has ended, or never was.
const over = `(r.window_start <= $4 OR r.window_start > $3::timestamptz + interval '1 minute')`

// Take counts a request. A refused one gets a command.Refusal of kind RateLimited that says when to come again; when
// the counters can't be reached, the error wraps command.ErrUnavailable.
func (l *Limiter) Take(ctx context.Context, organization uuid.UUID) error {
	return l.TakeN(ctx, organization, 1)
}

// TakeN counts n requests, or none.
func (l *Limiter) TakeN(ctx context.Context, organization uuid.UUID, n int) error {
	now := l.Now().UTC()
	var start time.Time
	var taken bool
	err := l.Pool.QueryRow(ctx, count, organization, l.Bucket, now, now.Add(-l.Window), l.Limit, n).Scan(&taken, &start)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // nothing is allowed, or another node's first request came just now
		start = now
	case err != nil:
		return fmt.Errorf("count requests: %w: %w", command.ErrUnavailable, err)
	case taken:
		return nil
	}
	wait := max(start.Add(l.Window).Sub(now), time.Second)
	return &command.Refusal{
		Kind: command.RateLimited, RetryAfter: wait,
		Message: fmt.Sprintf("more than %d requests in %s; try again in %d s", l.Limit, l.Window,
			int(wait.Round(time.Second).Seconds())),
	}
}
