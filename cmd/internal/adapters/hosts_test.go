package adapters_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/fetch/hoststest"
	"carillon/projections/projecttest"
)

func TestHostsKeepTheContract(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	hoststest.Run(t, func(*testing.T) fetch.Hosts { return adapters.Hosts{Pool: pool} })
}

// A Postgres that is away is no fault of the source's.
func TestHostsWithoutPostgres(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://carillon@127.0.0.1:1/nothing?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	hosts := adapters.Hosts{Pool: pool}
	_, _, err = hosts.Take(t.Context(), "a.example", time.Second)
	_, _, read := hosts.Robots(t.Context(), "https://a.example")
	for _, err := range []error{err, read, hosts.Rest(t.Context(), "a.example", time.Second),
		hosts.KeepRobots(t.Context(), "https://a.example", fetch.Robots{})} {
		if !errors.Is(err, collect.ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	}
}
