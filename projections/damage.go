package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// LeftOutError is returned by Rebuild if the read model is rebuilt and serves, without the data that no event has,
// because that could not be carried over from the old tables.
type LeftOutError struct{ Cause error }

// Error implements error.
func (e *LeftOutError) Error() string {
	return "rebuilt from the events alone; data without events could not be carried over: " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *LeftOutError) Unwrap() error { return e.Cause }

// damaged reports whether Postgres refused a statement because the tables, a column or their schema are missing, or
// their files are missing or can't be read.
func damaged(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	const undefinedTable, undefinedColumn, invalidSchema = "42P01", "42703", "3F000"
	switch refused.Code {
	case undefinedTable, undefinedColumn, invalidSchema:
		return true
	}
	// internal errors, and those of files
	return strings.HasPrefix(refused.Code, "XX") || strings.HasPrefix(refused.Code, "58")
}

// made finds what a DDL makes that can be selected from.
var made = regexp.MustCompile(`(?m)^CREATE (?:UNLOGGED )?(?:TABLE|VIEW) (\w+)`)

// missing lists the tables and views of a schema's DDL that are not there.
func (s *session) missing(ctx context.Context, ddl string) (names []string, err error) {
	var wanted []string
	for _, match := range made.FindAllStringSubmatch(ddl, -1) {
		wanted = append(wanted, match[1])
	}
	rows, err := s.pool.Query(ctx, `SELECT name FROM unnest($1::text[]) name
		WHERE NOT EXISTS (SELECT FROM pg_class WHERE relname = name AND relnamespace = to_regnamespace($2))`,
		wanted, pgx.Identifier{s.schema}.Sanitize())
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("look for the tables: %w", err)
	}
	return names, nil
}

// mendMissing makes dropped tables again: a read model is rebuilt, beside the rest of the old one, and a process
// manager begins from nothing.
func (r *Runner) mendMissing(ctx context.Context, s *session, c consumer, log *slog.Logger) error {
	names, err := s.missing(ctx, c.schema)
	if err != nil || len(names) == 0 {
		return err
	}
	why := "missing: " + strings.Join(slices.Sorted(slices.Values(names)), ", ")
	if c.model != nil {
		return r.mend(ctx, s, *c.model, why, log)
	}
	log.Warn("tables missing, beginning from nothing with all events of the event store", "why", why)
	return s.restart(ctx, s.store, c.schema)
}

// mendPause is how long a read model that was rebuilt because it was damaged, and is damaged still, waits for the next
// time.
const mendPause = 10 * time.Minute

// mendDamaged rebuilds a read model whose tables Postgres can't use, and returns the cause. A bug looks the same, so
// that it is not done again soon.
func (r *Runner) mendDamaged(
	ctx context.Context, s *session, c consumer, cause error, mended *time.Time, log *slog.Logger,
) error {
	if c.model == nil || !damaged(cause) || ctx.Err() != nil || time.Since(*mended) < mendPause {
		return cause
	}
	*mended = time.Now()
	if err := r.mend(ctx, s, *c.model, cause.Error(), log); err != nil {
		return errors.Join(cause, err)
	}
	return cause // the next session goes on with the new tables
}

func (r *Runner) mend(ctx context.Context, s *session, m ReadModel, why string, log *slog.Logger) error {
	log.Error("read model damaged, rebuilt beside what is left of it", "why", why)
	return r.rebuildFor(ctx, s, m)
}

// claim remakes a read model when a process starts. A process of the other version that runs stands by from then on,
// and remakes its tables when it is alone.
func (r *Runner) claim(ctx context.Context, c consumer, log *slog.Logger) error {
	if c.model == nil {
		return nil
	}
	found, there, err := loadCheckpoint(ctx, r.Pool, c.name)
	if err != nil || !there || c.model.made(found.fingerprint) {
		return err
	}
	if r.Identity != nil {
		if v, err := r.compareStore(ctx, found); err != nil || v.why != "" {
			return err // reconcile builds it
		}
	}
	return r.remake(ctx, nil, *c.model, log)
}

// remake builds a read model beside the tables of another version of the program, and takes their place. s is that of
// its runner. Optional.
func (r *Runner) remake(ctx context.Context, s *session, m ReadModel, log *slog.Logger) error {
	log.Info("rebuilding the read model; that of another version serves until then")
	return r.rebuildFor(ctx, s, m)
}

// rebuildFor rebuilds a read model, without what can't be carried over, and reloads the session of its runner. That is
// optional.
func (r *Runner) rebuildFor(ctx context.Context, s *session, m ReadModel) error {
	var leftOut *LeftOutError
	if err := r.rebuild(ctx, m, s, nil); err != nil && !errors.As(err, &leftOut) {
		return err
	}
	if s == nil {
		return nil
	}
	return s.reload(ctx)
}
