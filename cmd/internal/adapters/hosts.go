package adapters

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
)

// Hosts is fetch.Hosts in Postgres, by whose clock it goes. Where Postgres can't be reached, the errors wrap
// collect.ErrUnavailable.
type Hosts struct{ Pool *pgxpool.Pool }

var _ fetch.Hosts = Hosts{}

const (
	// takeTurn returns a row if the caller got the turn. No caller waits for the disk: a Postgres that crashes may forget
	// the turns of its last half second, and takes longer than that to come back. A turn or a rest further ahead than
	// possible was planned by a clock that was ahead, and delays no visit.
	takeTurn = `
		WITH unsynced AS (SELECT set_config('synchronous_commit', 'off', true))
		INSERT INTO carillon.hosts AS h (name, next_at) SELECT $1::text, clock_timestamp() + $2::interval FROM unsynced
		ON CONFLICT (name) DO UPDATE SET next_at = excluded.next_at
		WHERE (h.next_at <= clock_timestamp()
				OR h.next_at > clock_timestamp() + greatest($2::interval, interval '1 hour') + interval '5 seconds')
			AND (h.rest_until <= clock_timestamp() OR h.rest_until > clock_timestamp() + interval '25 hours')
		RETURNING name`
	nextTurn = `
		SELECT greatest(next_at, rest_until) - clock_timestamp(), rest_until > clock_timestamp()
		FROM carillon.hosts WHERE name = $1`
	restHost = `
		INSERT INTO carillon.hosts AS h (name, next_at, rest_until) VALUES ($1, '-infinity', clock_timestamp() + $2)
		ON CONFLICT (name) DO UPDATE SET rest_until = greatest(h.rest_until, excluded.rest_until)`
	readRobots = `
		SELECT body, url, etag, last_modified, clock_timestamp() - answered_at FROM carillon.robots WHERE origin = $1`
	keepRobots = `
		INSERT INTO carillon.robots (origin, body, url, etag, last_modified, answered_at)
		VALUES ($1, coalesce($2, ''::bytea), $3, $4, $5, clock_timestamp())
		ON CONFLICT (origin) DO UPDATE SET body = excluded.body, url = excluded.url, etag = excluded.etag,
			last_modified = excluded.last_modified, answered_at = excluded.answered_at`
	// Unused hosts are removed, a few at a time.
	forgetRobots = `
		DELETE FROM carillon.robots WHERE origin IN (
			SELECT origin FROM carillon.robots WHERE answered_at < clock_timestamp() - interval '30 days' LIMIT 100
			FOR UPDATE SKIP LOCKED)`
	forgetHosts = `
		DELETE FROM carillon.hosts WHERE name IN (
			SELECT name FROM carillon.hosts
			WHERE next_at < clock_timestamp() - interval '30 days' AND rest_until < clock_timestamp() LIMIT 100
			FOR UPDATE SKIP LOCKED)`
)

// leastWait keeps one who has just missed a turn from asking again at once.
const leastWait = time.Millisecond

// Take implements fetch.Hosts.
func (h Hosts) Take(
	ctx context.Context, host string, interval time.Duration,
) (wait time.Duration, resting bool, err error) {
	err = h.Pool.QueryRow(ctx, takeTurn, storedName(host), max(interval, 0)).Scan(nil)
	if err == nil || !errors.Is(err, pgx.ErrNoRows) {
		return 0, false, hostsError(ctx, "turn at a host", err)
	}
	err = h.Pool.QueryRow(ctx, nextTurn, storedName(host)).Scan(&wait, &resting)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil // forgotten meanwhile
	}
	return max(wait, leastWait), resting, hostsError(ctx, "next turn at a host", err)
}

// Rest implements fetch.Hosts.
func (h Hosts) Rest(ctx context.Context, host string, wait time.Duration) error {
	_, err := h.Pool.Exec(ctx, restHost, storedName(host), wait)
	return hostsError(ctx, "rest of a host", err)
}

// Robots implements fetch.Hosts.
func (h Hosts) Robots(ctx context.Context, origin string) (kept fetch.Robots, known bool, err error) {
	err = h.Pool.QueryRow(ctx, readRobots, storedName(origin)).
		Scan(&kept.Body, &kept.Validators.URL, &kept.Validators.ETag, &kept.Validators.LastModified, &kept.Age)
	if errors.Is(err, pgx.ErrNoRows) {
		return fetch.Robots{}, false, nil
	}
	return kept, err == nil, hostsError(ctx, "robots.txt of a host", err)
}

// KeepRobots implements fetch.Hosts.
func (h Hosts) KeepRobots(ctx context.Context, origin string, answer fetch.Robots) error {
	v := answer.Validators
	if !storable(v.URL) || !storable(v.ETag) || !storable(v.LastModified) {
		v = fetch.Validators{} // without them the whole file is asked for the next time
	}
	var statements pgx.Batch
	statements.Queue(keepRobots, storedName(origin), answer.Body, v.URL, v.ETag, v.LastModified)
	statements.Queue(forgetRobots)
	statements.Queue(forgetHosts)
	return hostsError(ctx, "keep the robots.txt of a host", h.Pool.SendBatch(ctx, &statements).Close())
}

// maxValidator is longer than any honest validator, in bytes.
const maxValidator = 1024

// storable reports whether a header that a stranger sent can be kept as text.
func storable(s string) bool {
	return len(s) <= maxValidator && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
}

// storedName is a host's name as text. From an invalid one nothing can be fetched, so all of them may be the same.
func storedName(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// hostsError leaves the end of the context what it is.
func hostsError(ctx context.Context, what string, err error) error {
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: %w: %w", what, collect.ErrUnavailable, err)
}
