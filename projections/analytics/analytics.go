// Package analytics keeps the Postgres schema "analytics": documented views on the read models, for people who ask
// questions in SQL, and the role carillon_analyst, which may read these views and nothing else.
//
// Logins makes users who are members of that role.
//
// The comments of views and columns (\d+ in psql) say what they mean. No view shows secrets, headers, addresses of
// endpoints, or what they answered.
//
// A read model that is rebuilt takes the views on it along when its old tables are dropped. Around makes them again in
// the transaction that does it, so that analysts see the old rows, then the new ones, and never an error.
package analytics

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

//go:embed views/*.sql
var files embed.FS

// view is one of the schema, and the read models that it stands on.
type view struct {
	name, sql string
	on        []string
}

// views are those of the files, by name.
var views = func() (all []view) {
	readModel := regexp.MustCompile(`(?:FROM|JOIN) (\w+)\.`)
	paths, _ := fs.Glob(files, "views/*.sql") // the pattern is well-formed
	for _, path := range paths {
		sql, _ := files.ReadFile(path) // embedded
		v := view{
			name: strings.TrimSuffix(filepath.Base(path), ".sql"),
			sql: notice.ReplaceAllString(pending.ReplaceAllStringFunc(string(sql), countPending), "($1 IN ('"+
				strings.Join(NoticeTypes, "', '")+"'))"),
		}
		for _, found := range readModel.FindAllStringSubmatch(v.sql, -1) {
			v.on = append(v.on, found[1])
		}
		all = append(all, v)
	}
	return all
}()

// pending matches PENDING(columns) in a view: what countPending returns.
var pending = regexp.MustCompile(`PENDING\(([^)]*)\)`)

// countPending returns the subquery that counts pending deliveries by state and by some columns.
func countPending(call string) string {
	by := pending.FindStringSubmatch(call)[1]
	var counts []string
	for _, state := range deliverystate.Set(0).Live() {
		counts = append(counts, "count(*) FILTER (WHERE "+state.SQL(deliverystate.Held("now()"))+") AS "+string(state))
	}
	return "(SELECT " + by + ", " + strings.Join(counts, ", ") +
		" FROM (SELECT *, (created_at AT TIME ZONE 'UTC')::date AS day FROM deliveries.deliveries) d" +
		" JOIN (SELECT id, worker, available_at FROM deliveries.due) u ON u.id = d.id" +
		" WHERE d.status = '" + deliverystate.Pending + "' GROUP BY " + by + ")"
}

// notice matches NOTICE(column) in a view: whether a type is one of NoticeTypes.
var notice = regexp.MustCompile(`NOTICE\(([^)]*)\)`)

// NoticeTypes are the types of notices, as the catalog declares them.
var NoticeTypes = []string{
	"delivery.exhausted", "destination.failing", "destination.auto_disabled", "destination.recovered", "secret.expiring",
	"subscription.deactivated", "source.needs_attention",
}

// ErrIncomplete: some views, or the rights on them, could not be made; the error says why. The transaction is fine.
var ErrIncomplete = errors.New("analytics: incomplete")

// lock is the advisory lock for changes of the schema; it is taken before any lock on a read model's tables.
const lock = 0x616e616c79746963 // "analytic"

// Create makes the views that are missing and whose read models are there, and all of them again if this version has
// others than the one that made them. Several may do it at once. An error that is not ErrIncomplete means that the
// transaction is lost.
func Create(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock)); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	found, err := inspect(ctx, tx)
	if err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	var problems []error
	attempt := func(what, sql string) (done bool, err error) {
		refused, err := attempt(ctx, tx, sql)
		if refused != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, refused))
		}
		return refused == nil && err == nil, err
	}
	version := found.version()
	fresh := version == fingerprint()
	if !found.schema {
		if made, err := attempt("the schema", "CREATE SCHEMA analytics"); !made {
			return incomplete(problems, err)
		}
	}
	changed := false
	for _, v := range views {
		if fresh && slices.Contains(found.views, v.name) || !subset(v.on, found.readModels) {
			continue
		}
		made, err := attempt("the view "+v.name, "DROP VIEW IF EXISTS analytics."+v.name+";"+v.sql)
		if err != nil {
			return incomplete(problems, err)
		}
		changed = changed || made
	}
	if !fresh && len(problems) == 0 {
		if _, err := attempt("the comment of the schema", "COMMENT ON SCHEMA analytics IS '"+description+fingerprint()+
			"'"); err != nil {
			return incomplete(problems, err)
		}
	}
	if found.role && (changed || !found.granted) {
		if _, err := attempt("the rights of "+Role, "GRANT USAGE ON SCHEMA analytics TO "+Role+
			"; GRANT SELECT ON ALL TABLES IN SCHEMA analytics TO "+Role); err != nil {
			return incomplete(problems, err)
		}
	}
	return incomplete(problems, nil)
}

func incomplete(problems []error, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("analytics: %w", err)
	case len(problems) > 0:
		return fmt.Errorf("%w: %w", ErrIncomplete, errors.Join(problems...))
	}
	return nil
}

// ErrInUse means that an analyst reads a view that Around would drop: its caller gives up its locks and tries again.
var ErrInUse = errors.New("analytics: a session reads the views")

// Around replaces the tables of a read model: views on them are dropped before, and made again after. It locks the
// views first, as their readers do, so that no reader and it wait for each other.
func Around(ctx context.Context, tx pgx.Tx, readModel string, replace func() error) error {
	var on []string
	for _, v := range views {
		if slices.Contains(v.on, readModel) {
			on = append(on, "analytics."+v.name)
		}
	}
	if on == nil {
		return replace()
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock)); err != nil {
		return fmt.Errorf("analytics: %w", err)
	}
	// A transaction of an analyst may hold a view for as long as MaxTransaction.
	refused, err := attempt(ctx, tx, "SET LOCAL lock_timeout = '1s'; DROP VIEW IF EXISTS "+strings.Join(on, ", ")+
		"; SET LOCAL lock_timeout = 0")
	switch {
	case err != nil:
		return fmt.Errorf("analytics: %w", err)
	case refused != nil && refused.Code == lockNotAvailable:
		return fmt.Errorf("%w: %w", ErrInUse, refused)
	}
	if err := replace(); err != nil { // a view that could not be dropped goes with the tables
		return err
	}
	// Those of other read models are made again too if an older version has made them.
	if _, err = tx.Exec(ctx, "SET LOCAL lock_timeout = '100ms'"); err == nil {
		err = Create(ctx, tx)
	}
	// A read model must not fail for the sake of its analysts; the next start says what is missing.
	if err == nil || errors.Is(err, ErrIncomplete) {
		_, err = tx.Exec(ctx, "SET LOCAL lock_timeout = 0")
	}
	return err
}

// found holds the existing views.
type found struct {
	schema     bool
	comment    string
	views      []string
	readModels []string
	role       bool
	granted    bool // the role may use the schema
}

func inspect(ctx context.Context, tx pgx.Tx) (f found, err error) {
	err = tx.QueryRow(ctx, `
		SELECT to_regnamespace('analytics') IS NOT NULL,
			coalesce(obj_description(to_regnamespace('analytics'), 'pg_namespace'), ''),
			ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace('analytics') AND relkind = 'v'),
			ARRAY(SELECT nspname::text FROM pg_namespace),
			role IS NOT NULL,
			coalesce(has_schema_privilege(role, to_regnamespace('analytics'), 'USAGE'), false)
		FROM (SELECT (SELECT oid FROM pg_roles WHERE rolname = $1) AS role) r`, Role).
		Scan(&f.schema, &f.comment, &f.views, &f.readModels, &f.role, &f.granted)
	return f, err
}

// description is the comment of the schema; the version follows.
const description = "Views for analysts; see the comments of each. Kept by Carillon: changes are lost. Version "

func (f found) version() string {
	version, ok := strings.CutPrefix(f.comment, description)
	if !ok {
		return ""
	}
	return version
}

// fingerprint is the version of the views.
func fingerprint() string {
	hash := sha256.New()
	for _, v := range views {
		hash.Write([]byte(v.sql))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
