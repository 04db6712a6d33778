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
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/analytics"
	"carillon/projections/projecttest"
)

func loginsOf(t *testing.T, pool *pgxpool.Pool) analytics.Logins {
	return analytics.Logins{Pool: pool, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
}

// newLogin returns a login whose name no other test of the server has; it goes with the test.
func newLogin(t *testing.T, logins analytics.Logins) (name, connection string) {
	t.Helper()
	name = "ana_" + strings.ToLower(rand.Text())
	connection, err := logins.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := logins.Delete(context.WithoutCancel(t.Context()), name)
		if err != nil && !errors.Is(err, analytics.ErrNoLogin) {
			t.Error(err)
		}
	})
	return name, connection
}

// Without its password, and after its end, a login opens nothing; sessions end with it.
func TestLoginNeedsPassword(t *testing.T) {
	t.Parallel()
	logins := loginsOf(t, made(t))
	name, connection := newLogin(t, logins)
	config, err := pgx.ParseConfig(connection)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	wrong := config.Copy()
	wrong.Password += "x"
	if _, err := pgx.ConnectConfig(t.Context(), wrong); err == nil {
		t.Error("a wrong password was accepted")
	}
	if err := logins.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("the session went on")
	}
	if _, err := pgx.ConnectConfig(t.Context(), config); err == nil {
		t.Error("the deleted login was accepted")
	}
}

func TestLoginNames(t *testing.T) {
	t.Parallel()
	logins := loginsOf(t, made(t))
	name, _ := newLogin(t, logins)
	if _, err := logins.Create(t.Context(), name); !errors.Is(err, analytics.ErrLoginTaken) {
		t.Errorf("created twice: %v", err)
	}
	listed, err := logins.List(t.Context())
	if err != nil || !strings.Contains(strings.Join(listed, " "), name) {
		t.Errorf("listed %v, %v", listed, err)
	}
	for _, bad := range []string{
		"", "Ana", "1ana", "ana; DROP TABLE x", `a"b`, "pg_monitor", "postgres", "public", "none",
		"carillon", "carillon_analyst",
		strings.Repeat("a", 64),
	} {
		if _, err := logins.Create(t.Context(), bad); !errors.Is(err, analytics.ErrLoginName) {
			t.Errorf("%q: %v", bad, err)
		}
		if err := logins.Delete(t.Context(), bad); !errors.Is(err, analytics.ErrNoLogin) {
			t.Errorf("%q deleted: %v", bad, err)
		}
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
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
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
		if asked < least {
			t.Errorf("%s has %d questions, and %d were found", page, least, asked)
		}
	}
}
