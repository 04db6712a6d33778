package sessionlock

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Key names an advisory lock.
type Key int64

// Late is how long the holder of a lock may say nothing before who waits for the lock ends its session.
const Late = 10 * time.Second

// endLate ends the sessions that hold locks and have said nothing for too long. A statement that takes its time is
// not nothing, unless it has come to waiting for its client.
func endLate(ctx context.Context, conn *pgx.Conn, keys []int64) error {
	_, err := conn.Exec(ctx, `
		SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND classid::bigint << 32 | objid::bigint = ANY ($1::bigint[]) AND objsubid = 1
		AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (state LIKE 'idle%' OR wait_event_type = 'Client')
			AND greatest(backend_start, query_start, state_change) < clock_timestamp() - make_interval(secs => $2::float8)`,
		keys, Late.Seconds())
	if err != nil {
		return fmt.Errorf("end the session of a holder that is late: %w", err)
	}
	return nil
}

// ofProduct reports whether a session, as pg_stat_activity has it, may be one of the product: its user may move
// checkpoints. Locks and notifications of others, such as analysts, are not the product's, whatever name they take.
const ofProduct = "coalesce(has_table_privilege(usesysid, to_regclass('carillon.checkpoints'), 'UPDATE'), true)"

// Holder is the session that holds a lock.
type Holder struct {
	Process  string // by the name that Process gave it there; "" if the session is not of this package
	Stranger string // user and process id of a session that is not of the product; "" if it is
}

// Holders returns who holds each lock. Free locks are not included.
func Holders(ctx context.Context, pool *pgxpool.Pool) (map[Key]Holder, error) {
	rows, err := pool.Query(ctx, `
		SELECT classid::bigint << 32 | objid::bigint, coalesce(application_name, ''),
			CASE WHEN `+ofProduct+` THEN '' ELSE usename || ', pid ' || pid END
		FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND objsubid = 1 AND granted
			AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return nil, fmt.Errorf("holders of locks: %w", err)
	}
	holders := map[Key]Holder{}
	var (
		key                   Key
		application, stranger string
	)
	_, err = pgx.ForEachRow(rows, []any{(*int64)(&key), &application, &stranger}, func() error {
		holder := Holder{Stranger: stranger}
		if process, is := strings.CutPrefix(application, sessionName); is && stranger == "" {
			holder.Process = process
		}
		holders[key] = holder
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("holders of locks: %w", err)
	}
	return holders, nil
}

// sessionName begins the application_name of the session.
const sessionName = "carillon locks on "

var applicationName = sessionName + Process()

// Process returns the name of this process as other processes and operators see it: machine and process id.
func Process() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	const room = 30 // an application_name has 63 bytes
	return host[:min(len(host), room)] + ":" + strconv.Itoa(os.Getpid())
}
