package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"carillon/projections"
	"carillon/projections/sessionlock"
)

const (
	mayNot  = "42501"     // insufficient_privilege
	tooMany = "53300"     // too_many_connections
	retry   = time.Second // between two attempts at a Postgres that is away
)

// prepareDatabase makes what is missing of tables and views. Where Postgres is elsewhere and away it waits for it, as
// for the event store, and says so.
func (a *App) prepareDatabase(ctx context.Context) error {
	for {
		err := a.makeTables(ctx)
		if err == nil || a.cfg.DatabaseURL == "" || ctx.Err() != nil {
			return err
		}
		trouble := databaseTrouble(err)
		if !away(err) {
			return trouble
		}
		a.log.Warn("waiting for Postgres", "error", trouble)
		select {
		case <-ctx.Done():
			return trouble
		case <-time.After(retry):
		}
	}
}

func (a *App) makeTables(ctx context.Context) error {
	if err := a.base.locks.Open(ctx); err != nil {
		return err
	}
	if err := projections.Migrate(ctx, a.base.pool); err != nil {
		return err
	}
	for _, m := range ReadModels() {
		if err := projections.EnsureSchema(ctx, a.base.pool, m); err != nil {
			return err
		}
	}
	return a.openAnalytics(ctx)
}

// away reports that Postgres can't be reached, or does not take connections just now: waiting may mend that.
func away(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(answer.Code, "57P0") || answer.Code == tooMany // it starts, stops or has crashed
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, io.ErrUnexpectedEOF)
}

// databaseTrouble explains a failed first use of CARILLON_DATABASE_URL, and how to repair it.
func databaseTrouble(err error) error {
	const setting = "CARILLON_DATABASE_URL (--database-url)"
	var answer *pgconn.PgError
	var failed *pgconn.ConnectError
	answered, connected := errors.As(err, &answer), !errors.As(err, &failed)
	switch {
	case errors.Is(err, sessionlock.ErrPooled):
		return fmt.Errorf("%s leads through a pooler in transaction mode: name the address of Postgres itself in "+
			"CARILLON_DATABASE_DIRECT_URL, "+
			"for the one session that a process keeps: %w", setting, err)
	case answered && answer.Code == mayNot:
		return fmt.Errorf("%s: its user may not make schemas: \"GRANT CREATE ON DATABASE … TO …\" lets it. %w", setting, err)
	case connected:
		return fmt.Errorf("%s: %w", setting, err)
	case answered:
		return fmt.Errorf("%s: Postgres is there and refuses: %s (SQLSTATE %s). Are user, password and database right?",
			setting, answer.Message, answer.Code)
	}
	return fmt.Errorf("%s: Postgres can't be reached: %s. Is it running there, and are host and port right?", setting,
		once(failed.Unwrap()))
}

// once is an error's text without repetition: the driver tries an address with TLS and without.
func once(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(slices.Compact(lines), "; ")
}
