package analytics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of the logins that Create makes. They hold against intent, other than defaults of a role.
const (
	maxSessions = 4 // CONNECTION LIMIT; such members of the role are the ones that Create made

	// tempFileLimit of each process of Postgres. Only a superuser may change it.
	tempFileLimit = "temp_file_limit = '256MB'"

	// MaxTransaction is the time after which Watch ends a session whose transaction still runs.
	MaxTransaction = 10 * time.Minute

	maxNotificationQueue = 0.05 // of its size: a session that listens and does not read holds it up
)

// openings lists the privileges in this database that everybody has by default, and with which the role $1 could
// write, or hold up the product: locks of the product, large objects, write-ahead log, temporary tables, code.
const openings = `
	SELECT 'EXECUTE ON FUNCTION ' || oid::regprocedure FROM pg_proc
	WHERE pronamespace = 'pg_catalog'::regnamespace AND has_function_privilege($1::name, oid, 'EXECUTE') AND proname ~
		'^(pg_advisory_|pg_try_advisory_|pg_notify$|pg_logical_emit_message$|lo_|loread$|lowrite$)'
	UNION ALL SELECT 'USAGE ON LANGUAGE ' || quote_ident(lanname) FROM pg_language
	WHERE laninline <> 0 AND has_language_privilege($1::name, oid, 'USAGE')
	UNION ALL SELECT 'TEMPORARY ON DATABASE ' || quote_ident(current_database())
	WHERE has_database_privilege($1::name, current_database(), 'TEMPORARY')`

// made lists the logins that Create made, in this version or an earlier one.
var made = fmt.Sprintf("%s AND u.rolconnlimit = %d", analysts, maxSessions)

// Logins without a bound, and the statement that sets it.
var missing = []struct{ logins, sql string }{
	// A member may end sessions of the login and drop what it owns. A superuser counts as one.
	{made + " AND NOT pg_has_role(u.oid, 'USAGE')", "GRANT %s TO CURRENT_USER"},
	{
		made + " AND NOT EXISTS (SELECT FROM unnest(u.rolconfig) setting WHERE setting LIKE 'temp_file_limit=%')",
		"ALTER ROLE %s SET " + tempFileLimit,
	},
}

// bound takes from everybody but the owner of the database what analysts must not have, and bounds the logins. If there
// are any, it logs what the user of this process may not change.
func bound(ctx context.Context, tx pgx.Tx, log *slog.Logger) error {
	open, err := list(ctx, tx, openings)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		if _, err = attempt(ctx, tx, revocations(open)); err != nil {
			return err
		}
		if open, err = list(ctx, tx, openings); err != nil {
			return err
		}
	}
	for _, m := range missing {
		logins, err := list(ctx, tx, m.logins)
		if err != nil {
			return err
		}
		for _, name := range logins {
			sql := fmt.Sprintf(m.sql, pgx.Identifier{name}.Sanitize())
			refused, err := attempt(ctx, tx, sql)
			if err != nil {
				return err
			}
			if refused != nil {
				open = append(open, sql)
			}
		}
	}
	logins, err := list(ctx, tx, analysts)
	if err != nil {
		return err
	}
	if len(open) > 0 && len(logins) > 0 {
		log.Warn("analysts may hold up the product: have a superuser revoke the privileges of PUBLIC, or use a replica "+
			"(docs/use/analytics.md)", "open", len(open), "first", open[0])
	}
	return nil
}

// attempt executes a statement in a savepoint. refused is not nil if Postgres refused it, and changes nothing.
func attempt(ctx context.Context, tx pgx.Tx, sql string) (refused *pgconn.PgError, err error) {
	err = pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
	if errors.As(err, &refused) {
		return refused, nil
	}
	return nil, err
}

// list returns the texts that a query about the role yields.
func list(ctx context.Context, tx pgx.Tx, query string) ([]string, error) {
	rows, err := tx.Query(ctx, query, Role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// revocations returns the statements that take privileges from everybody but the database's owner.
func revocations(privileges []string) string {
	var sql strings.Builder
	sql.WriteString("DO $do$ DECLARE owner text := (SELECT quote_ident(pg_get_userbyid(datdba)) FROM pg_database " +
		"WHERE datname = current_database()); BEGIN\n")
	for _, p := range privileges {
		fmt.Fprintf(&sql, "EXECUTE 'GRANT %[1]s TO ' || owner; REVOKE %[1]s FROM PUBLIC;\n", p)
	}
	return sql.String() + "END $do$"
}
