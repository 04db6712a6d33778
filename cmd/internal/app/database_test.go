package app_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/eventstore/nodetest"
	"carillon/projections/pgtest"
)

func TestADatabaseThatCannotBeUsedSaysHowToMendIt(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	there, err := url.Parse(pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	guest := "guest_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if _, err := pool.Exec(t.Context(), "CREATE ROLE "+guest); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+guest); err != nil {
			t.Error(err)
		}
	})
	asGuest, elsewhere := *there, *there
	elsewhere.Path = "/nowhere"
	options := there.Query()
	options.Set("options", "-c role="+guest)
	asGuest.RawQuery = strings.ReplaceAll(options.Encode(), "+", "%20")
	for address, want := range map[string]string{
		"postgres://u:hunter2@127.0.0.1:1/x": "CARILLON_DATABASE_URL (--database-url): Postgres can't be reached: 127.0.0.1:1 (127.0.0.1): ",
		elsewhere.String():                   `Postgres is there and refuses: database "nowhere" does not exist (SQLSTATE 3D000)`,
		asGuest.String():                     "its user may not make schemas",
	} {
		a, err := app.Open(t.Context(), config.Config{
			HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: nodetest.SocketDir(t), DatabaseURL: config.Address(address),
		}, slog.New(slog.DiscardHandler))
		if err == nil {
			a.Close()
			t.Fatalf("opened on %s", address)
		}
		if text := err.Error(); !strings.Contains(text, want) || strings.Contains(text, "hunter2") || strings.Count(text, "connection refused") > 1 {
			t.Errorf("%s\nwant %s", text, want)
		}
	}
}
