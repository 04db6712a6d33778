package app_test

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

func TestUnusableDatabaseSaysHowToRepair(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	there := must.Get(url.Parse(pool.Config().ConnString()))(t)
	guest := "guest_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	must.Get(pool.Exec(t.Context(), "CREATE ROLE "+guest))(t)
	t.Cleanup(func() {
		must.Get(pool.Exec(context.WithoutCancel(t.Context()), "DROP ROLE "+guest))(t)
	})
	asGuest, elsewhere := *there, *there
	elsewhere.Path = "/nowhere"
	options := there.Query()
	options.Set("options", "-c role="+guest)
	asGuest.RawQuery = strings.ReplaceAll(options.Encode(), "+", "%20")
	for address, want := range map[string]string{
		elsewhere.String(): `Postgres is there and refuses: database "nowhere" does not exist (SQLSTATE 3D000)`,
		asGuest.String():   "its user may not make schemas",
	} {
		a, err := app.Open(t.Context(), config.Config{
			HTTPAddr:    "127.0.0.1:0",
			AdminAddr:   "127.0.0.1:0",
			DataDir:     nodetest.SocketDir(t),
			DatabaseURL: config.Address(address),
		}, slog.New(slog.DiscardHandler))
		if err == nil {
			a.Close()
			t.Fatalf("opened on %s", address)
		}
		text := err.Error()
		assert.True(t, strings.Contains(text, want), "%s\nwant %s", text, want)
	}
}

func TestWaitsForPostgres(t *testing.T) {
	t.Parallel()
	database, log := pgtest.NewServer(t), &apitest.Buffer{}
	address := must.Get(url.Parse(database.URL()))(t)
	address.User = url.UserPassword(address.User.Username(), "hunter2")
	database.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	type opened struct {
		app *app.App
		err error
	}
	opening := make(chan opened, 1)
	go func() {
		a, err := app.Open(ctx, config.Config{
			HTTPAddr:        "127.0.0.1:0",
			AdminAddr:       "127.0.0.1:0",
			DataDir:         nodetest.SocketDir(t),
			DatabaseURL:     config.Address(address.String()),
			Roles:           []string{config.RoleAPI},
			DeliveryTimeout: time.Second,
		}, slog.New(slog.NewTextHandler(log, nil)))
		opening <- opened{a, err}
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(log.String(), "waiting for Postgres") ||
		!strings.Contains(log.String(), "CARILLON_DATABASE_URL (--database-url): Postgres can't be reached") {
		select {
		case o := <-opening:
			t.Fatalf("it did not wait: %v", o.err)
		case <-tick.C:
		}
	}
	database.Restart()
	o := <-opening
	must.True(t, o.err == nil, "%v", o.err)
	o.app.Close()
	assert.True(t, !strings.Contains(log.String(), "hunter2"), "the log has the password")
}

// TestMissingSettingsAreNamed: if no Postgres can be run, the first error names them.
func TestMissingSettingsAreNamed(t *testing.T) {
	t.Parallel()
	cfg := config.Config{
		HTTPAddr:    "127.0.0.1:0",
		AdminAddr:   "127.0.0.1:0",
		DataDir:     t.TempDir(),
		PostgresBin: t.TempDir(),
		Roles:       []string{config.RoleAPI},
	}
	_, err := app.Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "set CARILLON_DATABASE_URL") &&
		strings.Contains(err.Error(), "CARILLON_EVENTSTORE_URL"), "error = %v", err)
}
