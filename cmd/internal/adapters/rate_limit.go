package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
	"carillon/command"
)

// Limiter allows each organization a number of actions in a window of time, over all processes. A window begins with
// its first action, by the clock of Postgres. An organization's own limit replaces the default.
type Limiter struct {
	Pool *pgxpool.Pool
	Of   organization.Definition
}

// NewCheckLimiter makes the limit of the routes that send a request to an address of the caller's choice.
func NewCheckLimiter(pool *pgxpool.Pool) *Limiter {
	return &Limiter{pool, organization.Definition{Limit: "checks", Default: 10, Window: time.Minute}}
}

// count is one statement, so that two processes never count from the same value. Actions over the limit aren't counted,
// so that a limit that is raised has room at once. A window that begins later than now is of a clock that was put back
// since, and limits no organization.
//
//	$1 organization  $2 limit  $3 default  $4 window  $5 number of actions
var count = fmt.Sprintf(`
	WITH allowed AS MATERIALIZED (
		SELECT coalesce((SELECT (limits->>$2::text)::bigint FROM organizations.organizations WHERE id = $1::uuid),
			$3::bigint) AS most, clock_timestamp() AS now),
	taken AS (
		INSERT INTO carillon.rate_limits AS r (organization, bucket, window_start, count)
		SELECT $1::uuid, $2::text, now, $5::bigint FROM allowed WHERE $5::bigint <= most
		ON CONFLICT (organization, bucket) DO UPDATE SET
			window_start = CASE WHEN %[1]s THEN excluded.window_start ELSE r.window_start END,
			count = CASE WHEN %[1]s THEN excluded.count ELSE r.count + excluded.count END
		WHERE %[1]s OR r.count + excluded.count <= (SELECT most FROM allowed)
		RETURNING 1)
	SELECT EXISTS (SELECT FROM taken), most, most - coalesce(r.count, 0),
		$4::interval + coalesce(r.window_start - now, '0')
	FROM allowed LEFT JOIN carillon.rate_limits r ON organization = $1 AND bucket = $2 AND NOT %[2]s`,
	fmt.Sprintf(over, "excluded.window_start"), fmt.Sprintf(over, "now"))

// over reports whether a window has ended, or never was.
const over = `(r.window_start <= %[1]s - $4::interval
	OR r.window_start > %[1]s + least(10 * $4::interval, interval '1 minute'))`

// counting is an answer of Postgres.
type counting struct {
	taken      bool
	most, room int           // the limit, and what was left of it before
	wait       time.Duration // until the window ends
}

// count counts n actions, or none: then the error is an *organization.LimitError.
func (l Limiter) count(ctx context.Context, of uuid.UUID, n int) (got counting, err error) {
	err = l.Pool.QueryRow(ctx, count, of, l.Of.Limit, l.Of.Default, l.Of.Window, n).
		Scan(&got.taken, &got.most, &got.room, &got.wait)
	got.wait = max(got.wait, time.Second)
	switch {
	case err != nil:
		return got, fmt.Errorf("count %s: %w: %w", l.Of.Limit, command.ErrUnavailable, err)
	case !got.taken:
		return got, &organization.LimitError{Limit: l.Of.Limit, Most: got.most}
	}
	return got, nil
}

// Take counts an action. A refused one gets a command.Refusal of kind RateLimited that says when to come again; when
// the counters can't be reached, the error wraps command.ErrUnavailable.
func (l Limiter) Take(ctx context.Context, of uuid.UUID) error {
	got, err := l.count(ctx, of, 1)
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return &command.Refusal{
			Kind: command.RateLimited, RetryAfter: got.wait,
			Message: fmt.Sprintf("more than %d requests in %s; try again in %d s", reached.Most, l.Of.Window,
				int(got.wait.Round(time.Second).Seconds())),
		}
	}
	return err
}
