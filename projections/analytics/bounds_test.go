package analytics_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/analytics"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/projections/sessionlock"
)

// connect opens a session of an analyst who has switched off the defaults of the role.
func connect(t *testing.T, connection string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), connection)
	if err == nil {
		_, err = conn.Exec(t.Context(), "SET default_transaction_read_only = off; SET statement_timeout = 0")
	}
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func code(err error) string {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	if refused == nil {
		return ""
	}
	return refused.Code
}

// A login reads the views. Statements that would read more, write, hold up the product, or lift a bound are refused.
func TestLoginBounds(t *testing.T) {
	t.Parallel()
	pool := made(t)
	name, connection := newLogin(t, loginsOf(t, pool))
	const mayNot, readOnly, full = "42501", "25006", "53400"
	analyst, err := pgx.Connect(t.Context(), connection) // with the defaults of the role
	must.OK(t, err)
	defer func() { _ = analyst.Close(context.WithoutCancel(t.Context())) }()
	for _, view := range views {
		_, err := analyst.Exec(t.Context(), "SELECT * FROM "+view+" LIMIT 1")
		assert.True(t, err == nil, "%s: %v", view, err)
	}
	if _, err := analyst.Exec(t.Context(), "CREATE TABLE analytics.mine (a int)"); code(err) != readOnly {
		t.Errorf("a write by default: %v", err)
	}
	conn := connect(t, connection) // one for all: the server ends a session some time after it was closed
	for statement, want := range map[string]string{
		"SELECT * FROM destinations.secrets":                                 mayNot,
		"SELECT rolpassword FROM pg_authid":                                  mayNot,
		"CREATE TABLE public.mine (a int)":                                   mayNot,
		"ALTER ROLE CURRENT_USER SUPERUSER":                                  mayNot,
		"SELECT pg_advisory_lock(1)":                                         mayNot,
		"SELECT pg_try_advisory_lock_shared(1, 2)":                           mayNot,
		"SELECT pg_advisory_xact_lock(1)":                                    mayNot,
		"SELECT pg_notify('carillon_due', '')":                               mayNot,
		"SELECT pg_logical_emit_message(false, 'a', 'b')":                    mayNot,
		"SELECT lo_create(0)":                                                mayNot,
		"SELECT lo_from_bytea(0, 'a')":                                       mayNot,
		"CREATE TEMP TABLE mine (a int)":                                     mayNot,
		"CREATE FUNCTION pg_temp.mine() RETURNS int LANGUAGE sql RETURN 1":   mayNot,
		"CREATE TABLE analytics.mine (a int)":                                mayNot,
		"DO $$ BEGIN END $$":                                                 mayNot,
		"SET temp_file_limit = -1":                                           mayNot,
		"ALTER ROLE CURRENT_USER SET temp_file_limit = -1":                   mayNot,
		"ALTER ROLE CURRENT_USER RESET temp_file_limit":                      mayNot,
		"ALTER ROLE CURRENT_USER CONNECTION LIMIT -1":                        mayNot,
		"SELECT a FROM generate_series(1, 30000000) a ORDER BY md5(a::text)": full,
	} {
		_, err := conn.Exec(t.Context(), statement)
		assert.True(t, code(err) == want, "%s: %v, want %s", statement, err, want)
	}
	for _, database := range []string{"postgres", "template1"} {
		config := conn.Config()
		config.Database = database
		_, err := pgx.ConnectConfig(t.Context(), config)
		assert.True(t, err != nil, "the login opens database %s", database)
	}
	must.Get(conn.Exec(t.Context(), "ALTER ROLE CURRENT_USER RESET ALL"))(t)
	settings := rows(t, pool, "SELECT rolconfig FROM pg_roles WHERE rolname = '"+name+"'")
	assert.True(t, strings.Contains(settings[0], "temp_file_limit=256MB") && !strings.Contains(settings[0], "search_path"),
		"settings of the role: %v", settings)
}

// A session that took the locks before they were withheld, or that stays in a transaction, in any database, is
// ended; others are not.
func TestWatchEndsSessions(t *testing.T) {
	t.Parallel()
	pool := made(t)
	_, connection := newLogin(t, loginsOf(t, pool))
	must.Get(pool.Exec(t.Context(), "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC"))(t)
	holds, reads, idle := connect(t, connection), connect(t, connection), connect(t, connection)
	elsewhere := connect(t, strings.ReplaceAll(connection, pool.Config().ConnConfig.Database,
		pgtest.Pool(t).Config().ConnConfig.Database))
	for conn, statement := range map[*pgx.Conn]string{
		holds: "SELECT pg_advisory_lock(7)", reads: "BEGIN", elsewhere: "BEGIN",
	} {
		must.Get(conn.Exec(t.Context(), statement))(t)
	}
	// Whatever is listed at once may be of another test: those are left alone.
	listed := must.Get(analytics.Overdue(t.Context(), pool, 0))(t)
	must.OK(t, analytics.EndOverdue(t.Context(), pool, slog.New(slog.DiscardHandler)))
	for conn, want := range map[*pgx.Conn]struct{ overdue, ended bool }{
		holds:     {true, true},
		reads:     {true, false},
		elsewhere: {true, false},
		idle:      {},
	} {
		pid := int32(conn.PgConn().PID()) //nolint:gosec // a process id
		overdue := slices.ContainsFunc(listed, func(s analytics.Session) bool { return s.PID == pid })
		if ended := conn.Ping(t.Context()) != nil; overdue != want.overdue || ended != want.ended {
			t.Errorf("session %d: overdue %t, ended %t, want %+v", pid, overdue, ended, want)
		}
	}
}

// A swap of a read model does not wait for an analyst with its locks held.
func TestAroundGivesWayToReaders(t *testing.T) {
	t.Parallel()
	pool := made(t)
	_, connection := newLogin(t, loginsOf(t, pool))
	reader := connect(t, connection)
	must.Get(reader.Exec(t.Context(), "BEGIN; SELECT FROM feeds"))(t)
	replace := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return analytics.Around(t.Context(), tx, "feeds", func() error { return nil })
		})
	}
	assert.Is(t, replace(), analytics.ErrInUse, "while a session reads")
	must.Get(reader.Exec(t.Context(), "COMMIT"))(t)
	must.OK(t, replace())
}

// Nor does it for one who reads a view of another read model, which a new version of the program changes.
func TestAround_otherViewsInUse(t *testing.T) {
	t.Parallel()
	pool := made(t)
	must.Get(pool.Exec(t.Context(), "COMMENT ON SCHEMA analytics IS 'of an older version'"))(t)
	report := must.Get(pool.Begin(t.Context()))(t)
	t.Cleanup(func() { _ = report.Rollback(context.WithoutCancel(t.Context())) })
	must.Get(report.Exec(t.Context(), "SELECT FROM analytics.destinations"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must.OK(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		return analytics.Around(ctx, tx, "feeds", func() error { return nil })
	}))
}

// A login of an earlier version is bounded at the next start; one that owns objects in any database can be deleted.
func TestEarlierLogin(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t)
	pool := server.Pool()
	must.OK(t, projecttest.Prepare(t.Context(), pool, readModels()...))
	for _, statement := range []string{"CREATE ROLE " + analytics.Role,
		"CREATE ROLE ana LOGIN CONNECTION LIMIT 4 IN ROLE " + analytics.Role, "CREATE DATABASE other"} {
		must.Get(pool.Exec(t.Context(), statement))(t)
	}
	for _, database := range []string{pool.Config().ConnConfig.Database, "postgres", "other"} {
		config := pool.Config().ConnConfig.Copy()
		config.Database = database
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			_, err = conn.Exec(t.Context(), "SET ROLE ana; SELECT lo_create(4711)")
			err = errors.Join(err, conn.Close(t.Context()))
		}
		must.OK(t, err)
	}
	ensure(t, pool)
	got := rows(t, pool, "SELECT rolconfig FROM pg_roles WHERE rolname = 'ana'")
	assert.True(t, strings.Contains(got[0], "256MB"), "settings: %v", got)
	logins := loginsOf(t, pool)
	if _, err := pool.Exec(t.Context(), "ALTER ROLE ana NOLOGIN"); err != nil { // a deletion ended here
		t.Fatal(err)
	}
	if listed, err := logins.List(t.Context()); err != nil || !slices.Contains(listed, "ana") {
		t.Errorf("listed: %v, %v", listed, err)
	}
	must.OK(t, logins.Delete(t.Context(), "ana"))
}

// ordinary is a database whose owner is no superuser, and may do what the option says.
func ordinary(t *testing.T, super *pgxpool.Pool, option string) *pgxpool.Pool {
	t.Helper()
	for _, statement := range []string{"CREATE ROLE plain " + option, "CREATE DATABASE plain OWNER plain"} {
		must.Get(super.Exec(t.Context(), statement))(t)
	}
	config := super.Config()
	config.ConnConfig.Database, config.ConnConfig.RuntimeParams["role"] = "plain", "plain"
	pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
	t.Cleanup(pool.Close)
	return pool
}

// Without a superuser the login is made, its sessions can be ended, it can be deleted, and the log says what is open.
func TestLoginWithoutSuperuser(t *testing.T) {
	t.Parallel()
	pool := ordinary(t, pgtest.NewServer(t).Pool(), "CREATEROLE")
	ensure(t, pool)
	log, out := logged()
	logins := analytics.Logins{Pool: pool, Log: log}
	connection, err := logins.Create(t.Context(), "ana")
	must.True(t, err == nil && strings.Contains(out.String(), "have a superuser revoke"), "%v\n%s", err, out)
	conn := connect(t, connection)
	must.Get(conn.Exec(t.Context(), "SELECT pg_advisory_lock(7)"))(t)
	must.OK(t, analytics.EndOverdue(t.Context(), pool, log))
	assert.True(t, conn.Ping(t.Context()) != nil, "the session that holds a lock goes on")
	must.OK(t, logins.Delete(t.Context(), "ana"))
}

// An analyst's locks and notifications are not taken for those of the product, whatever name the session has.
func TestAnalystIsNoPartOfTheProduct(t *testing.T) {
	t.Parallel()
	pool := made(t)
	name, connection := newLogin(t, loginsOf(t, pool))
	must.Get(pool.Exec(t.Context(), "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC"))(t)
	heard := make(chan string, 100)
	go pgtest.Locks(t, pool).Listen(t.Context(), "carillon_due", func(payload string) { heard <- payload })
	<-heard // it listens
	analyst := connect(t, connection)
	must.Get(analyst.Exec(t.Context(), "SET application_name = 'carillon locks on host:1'; "+
		"SELECT pg_advisory_lock(7); NOTIFY carillon_due, 'forged'"))(t)
	must.Get(pool.Exec(t.Context(), "NOTIFY carillon_due, 'true'"))(t)
	assert.Equal(t, <-heard, "true", "heard")
	holders, err := sessionlock.Holders(t.Context(), pool)
	if h := holders[7]; err != nil || h.Process != "" || !strings.HasPrefix(h.Stranger, name+", pid ") {
		t.Errorf("holder: %+v, %v", h, err)
	}
}

func loginsOf(t *testing.T, pool *pgxpool.Pool) analytics.Logins {
	return analytics.Logins{Pool: pool, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// newLogin returns a login whose name no other test of the server has; it goes with the test.
func newLogin(t *testing.T, logins analytics.Logins) (name, connection string) {
	t.Helper()
	name = "ana_" + strings.ToLower(rand.Text())
	connection = must.Get(logins.Create(t.Context(), name))(t)
	t.Cleanup(func() {
		err := logins.Delete(context.WithoutCancel(t.Context()), name)
		assert.True(t, err == nil || errors.Is(err, analytics.ErrNoLogin), "%v", err)
	})
	return name, connection
}

// Without its password, and after its end, a login opens nothing; sessions end with it.
func TestLoginNeedsPassword(t *testing.T) {
	t.Parallel()
	logins := loginsOf(t, made(t))
	name, connection := newLogin(t, logins)
	config := must.Get(pgx.ParseConfig(connection))(t)
	conn := must.Get(pgx.ConnectConfig(t.Context(), config))(t)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	wrong := config.Copy()
	wrong.Password += "x"
	assert.True(t, assert.Err(pgx.ConnectConfig(t.Context(), wrong)) != nil, "a wrong password was accepted")
	must.OK(t, logins.Delete(t.Context(), name))
	assert.True(t, assert.Err(conn.Exec(t.Context(), "SELECT 1")) != nil, "the session went on")
	assert.True(t, assert.Err(pgx.ConnectConfig(t.Context(), config)) != nil, "the deleted login was accepted")
}

func TestLoginNames(t *testing.T) {
	t.Parallel()
	logins := loginsOf(t, made(t))
	name, _ := newLogin(t, logins)
	assert.Is(t, assert.Err(logins.Create(t.Context(), name)), analytics.ErrLoginTaken, "created twice")
	listed, err := logins.List(t.Context())
	assert.True(t, err == nil && strings.Contains(strings.Join(listed, " "), name), "listed %v, %v", listed, err)
	for _, bad := range []string{
		"", "Ana", "1ana", "ana; DROP TABLE x", `a"b`, "pg_monitor", "postgres", "public", "none",
		"carillon", "carillon_analyst",
		strings.Repeat("a", 64),
	} {
		assert.Is(t, assert.Err(logins.Create(t.Context(), bad)), analytics.ErrLoginName, "%q", bad)
		assert.Is(t, logins.Delete(t.Context(), bad), analytics.ErrNoLogin, "%q deleted", bad)
	}
}

// question is a block of SQL in the documentation, and the answer shown below it, if any.
var question = regexp.MustCompile("(?s)```sql\n(SELECT .*?;)\n```(?:\n\n```\n(.*?)\n)?")

// Analysts can run the queries of the documentation, and the answers have the columns that it shows.
func TestQuestionsOfTheDocumentation(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, readModels()...)
	pool := log.Database
	record(log)
	log.Project()
	ensure(t, pool)
	for page, least := range map[string]int{"use/analytics.md": 6} {
		text := must.Get(os.ReadFile("../../docs/" + page))(t)
		asked := 0
		for _, found := range question.FindAllStringSubmatch(string(text), -1) {
			query, header := found[1], strings.TrimSpace(found[2])
			if !strings.Contains(query, "analytics.") {
				continue
			}
			asked++
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE "+analytics.Role); err != nil {
					return err
				}
				rows, err := tx.Query(t.Context(), query)
				if err != nil {
					return err
				}
				defer rows.Close()
				var columns []string
				for _, f := range rows.FieldDescriptions() {
					columns = append(columns, f.Name)
				}
				if shown := strings.Fields(strings.ReplaceAll(header, "|", " ")); header != "" && !slices.Equal(shown, columns) {
					t.Errorf("%s shows %v, and the answer has %v:\n%s", page, shown, columns, query)
				}
				for rows.Next() { //nolint:revive // what it says is another test's matter
				}
				return rows.Err()
			})
			if err != nil {
				t.Errorf("%s: %v\n%s", page, err, query)
			}
		}
		assert.True(t, asked >= least, "%s has %d questions, and %d were found", page, least, asked)
	}
}
