package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

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
