package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Role may read the views and nothing else. It has no login: users are made members of it.
const Role = "carillon_analyst"

// SQLSTATEs.
const (
	duplicateObject  = "42710"
	uniqueViolation  = "23505"
	lockNotAvailable = "55P03"
)

// Ensure makes the role and the views if they are missing, at the start of a process. Statements that are denied, or
// blocked by an analyst's query, are logged; the process continues without them. An error means that Postgres is gone.
func Ensure(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) error {
	err := ensureRole(ctx, pool)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		//nolint:sloglint // the statement is the message
		log.Warn("analysts' role not created: as a superuser, run \"CREATE ROLE "+Role+"\", and restart", "error", err)
	case err != nil:
		return err
	}
	withRole := err == nil
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
			return err
		}
		err := Create(ctx, tx) // takes the lock
		if errors.Is(err, ErrIncomplete) {
			log.Warn("some analysts' views are missing or outdated; retried at the next start or rebuild",
				"error", err)
			err = nil
		}
		if err == nil && withRole {
			err = bound(ctx, tx, log)
		}
		return err
	})
	if errors.As(err, &refused) { // another process holds the lock for long
		log.Warn("the analysts' views were not looked after; the next start or rebuild does it", "error", err)
		return nil
	}
	return err
}

// ensureRole makes the role, which belongs to the whole server: processes on other databases may do so at the same
// time.
func ensureRole(ctx context.Context, pool *pgxpool.Pool) error {
	var there bool
	if err := pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", Role).
		Scan(&there); err != nil || there {
		return err
	}
	_, err := pool.Exec(ctx, "CREATE ROLE "+Role+" NOLOGIN")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == duplicateObject || refused.Code == uniqueViolation) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("role %s: %w", Role, err)
	}
	return nil
}

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
