//go:build nightly

package app_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// announceMany publishes events with a subject each.
func (p *process) announceMany(n int) {
	p.Helper()
	var publishers sync.WaitGroup
	for i := range 16 {
		publishers.Go(func() {
			for range n/16 + min(1, max(0, n%16-i)) {
				p.announce(uuid.NewString())
			}
		})
	}
	publishers.Wait()
}

// succeeded waits until that many deliveries of a destination are recorded as succeeded. An older Postgres has yet to
// hear of the destination.
func (p *process) succeeded(destination string, n int) {
	p.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Minute); ; <-tick.C {
		_, page := p.try(http.MethodGet, destinations+destination+"/deliveries?status=succeeded&limit=1", nil)
		if total, known := page["total"].(float64); known && total >= float64(n) {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s has fewer than %d deliveries that succeeded", destination, n)
		}
	}
}

// backup copies the database, while no process runs, and returns the copy's address.
func (p *process) backup() config.Address {
	p.Helper()
	ctx := context.WithoutCancel(p.Context())
	conn, err := pgx.Connect(ctx, p.cfg.DatabaseURL.Reveal())
	if err != nil {
		p.Fatal(err)
	}
	original := conn.Config().Database
	_ = conn.Close(ctx)
	elsewhere, err := url.Parse(p.cfg.DatabaseURL.Reveal())
	if err != nil {
		p.Fatal(err)
	}
	elsewhere.Path = "/postgres"
	admin, err := pgx.Connect(ctx, elsewhere.String())
	if err != nil {
		p.Fatal(err)
	}
	copied := original + "_backup"
	if _, err := admin.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", copied, original)); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_, _ = admin.Exec(ctx, "DROP DATABASE "+copied+" WITH (FORCE)")
		_ = admin.Close(ctx)
	})
	elsewhere.Path = "/" + copied
	return config.Address(elsewhere.String())
}

// onDirectory works with the event store of a directory that no process uses.
func onDirectory(t testing.TB, dir string, work func(*esdb.Store)) {
	t.Helper()
	n, err := node.Open(node.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	socket, served := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".sock"), make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	work(store)
	if err := errors.Join(store.Close(), n.Close(), <-served); err != nil {
		t.Error(err)
	}
}

// move puts a copy in the place of the event store, while no process runs.
func (p *process) move() {
	p.Helper()
	dir, old := filepath.Join(p.cfg.DataDir, "eventstore"), filepath.Join(p.cfg.DataDir, "old")
	if err := os.Rename(dir, old); err != nil {
		p.Fatal(err)
	}
	onDirectory(p.TB, old, func(source *esdb.Store) {
		onDirectory(p.TB, dir, func(target *esdb.Store) {
			// So that no position is what it was.
			_, err := target.Append(p.Context(), "$padding-1", eventstore.NoStream, []eventstore.Proposed{{
				ID:   uuid.New(),
				Type: "$x",
				Data: []byte(`{}`),
			}})
			if err != nil {
				p.Fatal(err)
			}
			if _, err := copying.Copy(p.Context(), source, target, copying.Options{}); err != nil {
				p.Fatal(err)
			}
		})
	})
}

// moveSize is how many deliveries have succeeded before a move: CARILLON_TORTURE_MOVED, as make torture-move sets it.
func moveSize(t *testing.T) (succeeded, waiting, retrying int, later time.Duration) {
	t.Helper()
	asked := os.Getenv("CARILLON_TORTURE_MOVED")
	if asked == "" {
		return 200, 10, 5, 8 * time.Second
	}
	n, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatalf("CARILLON_TORTURE_MOVED: %v", err)
	}
	return n, 100, 50, time.Minute
}

// slowDown delays each row of the read model of deliveries in Postgres, of the present one and of those built beside
// it.
func (p *process) slowDown(perRow time.Duration) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.cfg.DatabaseURL.Reveal())
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = conn.Close(p.Context()) }()
	_, err = conn.Exec(p.Context(), fmt.Sprintf(`
		CREATE FUNCTION public.take_time() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(%g); RETURN new; END';
		CREATE FUNCTION public.slow_down() RETURNS event_trigger LANGUAGE plpgsql AS $$
			DECLARE made record;
			BEGIN
				FOR made IN SELECT object_identity AS name FROM pg_event_trigger_ddl_commands()
				WHERE object_identity LIKE 'deliveries%%.deliveries' LOOP
					EXECUTE 'CREATE TRIGGER take_time BEFORE INSERT OR UPDATE ON ' || made.name ||
					' FOR EACH ROW EXECUTE FUNCTION public.take_time()';
				END LOOP;
			END $$;
		CREATE EVENT TRIGGER slow_down ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION public.slow_down();
		CREATE TRIGGER take_time BEFORE INSERT OR UPDATE ON deliveries.deliveries FOR EACH ROW EXECUTE FUNCTION
		public.take_time()`,
		perRow.Seconds()))
	if err != nil {
		p.Fatal(err)
	}
}

// Moved to a copy of the event store, or with a Postgres that an older backup brought back: succeeded deliveries are
// not sent again, and those that wait for a debounce window or a retry come once, at their time. That holds too while
// the read model of deliveries takes a hundred times as long: due deliveries are claimed when it has processed them,
// and not before.
func TestMovesOfManyDeliveries(t *testing.T) {
	const slowly = 20 * time.Millisecond // for a row, which takes far less than 0.2 ms
	t.Run("copied event store", func(t *testing.T) { movesMany(t, false, 0) })
	t.Run("restored Postgres", func(t *testing.T) { movesMany(t, true, 0) })
	t.Run("copied event store, slow projection", func(t *testing.T) { movesMany(t, false, slowly) })
	t.Run("restored Postgres, slow projection", func(t *testing.T) { movesMany(t, true, slowly) })
}

// A process knows the time of Postgres, by which windows close, within half of a round trip.
const clockError = 100 * time.Millisecond

func movesMany(t *testing.T, restored bool, perRow time.Duration) {
	t.Helper()
	t.Parallel()
	// On a busy machine windows may close, and retries be due, before the move: then they are wider.
	for _, _, _, later := moveSize(t); !movedInTime(t, restored, perRow, later); later *= 2 {
		if later > 2*time.Minute {
			t.Fatal("the move never came in time")
		}
	}
}

// movedInTime moves once. It is false where what was to come after the move came before it.
func movedInTime(t *testing.T, restored bool, perRow, later time.Duration) bool {
	t.Helper()
	succeeded, waiting, retrying, _ := moveSize(t)
	p := newProcess(t, func(c *config.Config) { c.DeliveryRetrySchedule = []time.Duration{later, later, later} })
	good, debounced, failing := p.countingEndpoint(), p.countingEndpoint(), p.countingEndpoint()
	p.connect("good", good.url, 0)
	// These are there before the backup, because it has to hold their data keys, and subscribe after it.
	p.destination("debounced", debounced.url, int(later.Seconds()))
	p.destination("failing", failing.url, 0)
	p.announceMany(succeeded / 2)
	p.succeeded("good", succeeded/2)
	older := p.cfg.DatabaseURL
	if restored {
		p.close()
		older = p.backup()
		p.open()
	}
	p.announceMany(succeeded - succeeded/2)
	p.subscribe("debounced")
	began := time.Now()
	late := func() bool { return time.Since(began) > later*8/10 } // a wait is up to a fifth shorter
	p.announceMany(waiting)
	p.subscribe("failing")
	failing.status.Store(http.StatusServiceUnavailable)
	p.announceMany(retrying)
	p.eventually("all retries wait", func() bool { _, requests := failing.came(); return requests == retrying || late() })
	p.succeeded("good", succeeded+waiting+retrying)
	p.eventually("the failures are recorded", func() bool {
		return late() || p.total(destinations+"failing/deliveries?status=pending&limit=1") == float64(retrying) &&
			strings.Contains(string(p.raw(destinations+"failing/deliveries?limit=100")), `"attemptCount":1`)
	})
	p.close()
	if late() {
		return false
	}
	failing.status.Store(http.StatusOK)
	if restored {
		p.cfg.DatabaseURL = older
	} else {
		p.move()
	}
	if perRow > 0 {
		p.slowDown(perRow)
	}
	p.open()

	p.succeeded("debounced", waiting+retrying)
	p.succeeded("failing", retrying)
	p.succeeded("good", succeeded+waiting+retrying)
	for name, want := range map[*countingEndpoint][2]int{
		good: {succeeded + waiting + retrying, succeeded + waiting + retrying}, debounced: {waiting + retrying,
			waiting + retrying}, failing: {retrying, 2 * retrying},
	} {
		if webhooks, requests := name.came(); webhooks != want[0] || requests != want[1] {
			t.Errorf("%d webhooks in %d requests came, want %d in %d", webhooks, requests, want[0], want[1])
		}
	}
	for id, times := range debounced.times {
		if times[0].Before(began.Add(later - clockError)) {
			t.Errorf("%s came %s after its window opened, at the earliest", id, times[0].Sub(began))
		}
	}
	for id, times := range failing.times {
		if wait := times[len(times)-1].Sub(times[0]); wait < later*8/10-time.Second {
			t.Errorf("%s was retried after %s", id, wait)
		}
	}
	return true
}
