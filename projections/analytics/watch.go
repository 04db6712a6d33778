package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// overdue lists the sessions, in any database, of the logins that Create made, with the reason to end them.
var overdue = fmt.Sprintf(`
	SELECT * FROM (
		SELECT a.pid, a.usename::text, CASE
			WHEN a.datname = current_database()
				AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory') THEN 'holds an advisory lock'
			WHEN a.xact_start < clock_timestamp() - make_interval(secs => $2) THEN 'its transaction runs too long'
			WHEN pg_notification_queue_usage() > $3 THEN 'notifications pile up' END AS reason
		FROM pg_stat_activity a
		WHERE a.backend_type = 'client backend' AND a.usename IN (%s)) sessions
	WHERE reason IS NOT NULL`, made)

// Watch ends sessions of analysts that could hold up the product, at each tick until the context ends.
func Watch(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger, ticks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if err := EndOverdue(ctx, pool, log); err != nil && ctx.Err() == nil {
			log.Warn("sessions of analysts can't be ended", "error", err)
		}
	}
}

// Session is one of an analyst that is to end.
type Session struct {
	PID          int32
	Name, Reason string
}

// Overdue lists the sessions of analysts that hold an advisory lock, are in a transaction for longer than a time, or
// hold up notifications.
func Overdue(ctx context.Context, pool *pgxpool.Pool, most time.Duration) ([]Session, error) {
	rows, err := pool.Query(ctx, overdue, Role, most.Seconds(), maxNotificationQueue)
	if err != nil {
		return nil, fmt.Errorf("analytics: sessions: %w", err)
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Session])
	if err != nil {
		return nil, fmt.Errorf("analytics: sessions: %w", err)
	}
	return sessions, nil
}

// EndOverdue ends the sessions that [Overdue] lists for [MaxTransaction].
func EndOverdue(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	sessions, err := Overdue(ctx, pool, MaxTransaction)
	if err != nil {
		return err
	}
	var failed []error
	for _, s := range sessions {
		if _, err := pool.Exec(ctx, "SELECT pg_terminate_backend($1)", s.PID); err != nil {
			failed = append(failed, fmt.Errorf("analytics: session %d of %s, which %s: %w", s.PID, s.Name, s.Reason, err))
			continue
		}
		log.Warn("analyst's session ended", "login", s.Name, "reason", s.Reason)
	}
	return errors.Join(failed...)
}
