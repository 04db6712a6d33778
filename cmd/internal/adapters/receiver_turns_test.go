package adapters_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/projections/projecttest"
)

// Of many that ask at one time one gets the turn of a destination, and the others hear when to come back.
func TestReceiverTurnsAreShared(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	to, others := uuid.New(), uuid.New()
	var got atomic.Int32
	var asking sync.WaitGroup
	for range 8 { // processes
		turns := adapters.ReceiverTurns{Hosts: adapters.Hosts{Pool: pool}}
		asking.Go(func() {
			wait, err := turns.Take(t.Context(), to, time.Hour)
			switch {
			case err != nil:
				t.Error(err)
			case wait == 0:
				got.Add(1)
			case wait > time.Hour || wait < 50*time.Minute:
				t.Errorf("wait %s, want nearly an hour", wait)
			}
		})
	}
	asking.Wait()
	if n := got.Load(); n != 1 {
		t.Errorf("%d got the turn, want 1", n)
	}
	turns := adapters.ReceiverTurns{Hosts: adapters.Hosts{Pool: pool}}
	if wait, err := turns.Take(t.Context(), others, time.Hour); wait > 0 || err != nil {
		t.Errorf("another destination waits %s (%v)", wait, err)
	}
}

func TestReceiverTurnsWithoutPostgres(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://carillon@127.0.0.1:1/nothing?connect_timeout=1")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	turns := adapters.ReceiverTurns{Hosts: adapters.Hosts{Pool: pool}}
	if _, err = turns.Take(t.Context(), uuid.New(), time.Second); !errors.Is(err, collect.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}
