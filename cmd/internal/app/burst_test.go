//go:build nightly

package app_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/delivery"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/projections"
)

// burst is the NDJSON of n events of an organization.
func burst(of uuid.UUID, events int) []byte {
	var body bytes.Buffer
	for range events {
		body.WriteString(event(of) + "\n")
	}
	return body.Bytes()
}

// send posts NDJSON to an admin listener, and reports whether all of it was taken.
func send(t *testing.T, admin, token string, body []byte) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/admin/events", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// While other organizations publish thousands of events in one body each, the events of one arrive as if it were alone,
// but for shared processors: not behind theirs.
func TestBurst_delaysNoOtherOrganization(t *testing.T) {
	const others, each, atLeast = 4, 6000, 15 // behind the bursts 5 to 8 came, each after a second or so
	p := start(t, func(c *config.Config) { c.DeliveryTimeout = time.Minute })
	_, arrived := p.subscribed(func(int) int { return http.StatusOK })
	token, err := (&config.Client{DataDir: p.cfg.DataDir}).Token()
	if err != nil {
		t.Fatal(err)
	}
	latency := func() time.Duration {
		began := time.Now()
		p.publish()
		p.await(arrived)
		return time.Since(began)
	}
	latency() // opens the connection

	var flooding sync.WaitGroup
	began := time.Now()
	var all []string
	for range others {
		theirs, err := p.app.Commands.RegisterOrganization(t.Context(), operator(),
			command.RegisterOrganization{Name: "Other"})
		if err != nil {
			t.Fatal(err)
		}
		p.quickCrowd(theirs.ID)
		all = append(all, theirs.ID.String())
		flooding.Go(func() {
			if !send(t, "http://"+p.app.AdminAddr().String(), token, burst(theirs.ID, each)) {
				t.Error("a burst was not taken")
			}
		})
	}
	tabled := func() (n int) {
		err := p.app.Queries.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM deliveries.deliveries WHERE organization = ANY($1::uuid[])", all).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var took []time.Duration
	for n := 0; n < others*each; n = tabled() {
		took = append(took, latency())
	}
	flood := time.Since(began)
	flooding.Wait()
	t.Logf("%d events came beside %d, one after the other, the slowest after %s; all were dispatched after %s", len(took),
		others*each, slices.Max(took), flood)
	if len(took) < atLeast {
		t.Errorf("only %d of a neighbour's events came while a burst was dispatched, which took %s", len(took), flood)
	}
}

// quickCrowd is a destination that answers at once.
func (p *process) quickCrowd(of uuid.UUID) {
	p.Helper()
	c := p.crowd(of, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quick = true
}

// Two processes share the work. In the middle of bursts the one that dispatches is killed, or loses its session, or is
// stopped until the other one has taken over: each event that was taken is dispatched once, and arrives.
func TestBurst_dispatchedOnceDespiteKills(t *testing.T) {
	const each = 2000
	s := newSeveral(t, 2, false)
	w := newWorkload(t, s.data, s.apis[0], s.admins[0])
	store, err := esdb.Open(s.store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	seen := &dispatches{made: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(watching.Wait)
	t.Cleanup(cancel)
	watching.Go(func() {
		for m := range eventstore.Follow(ctx, store, eventstore.Start, eventstore.Categories(publication.Aggregate.Category,
			dispatch.Aggregate.Category), slog.New(slog.DiscardHandler)) {
			if m.Event != nil {
				seen.add(m.Event)
			}
		}
	})
	kill := func(server *child) {
		server.kill()
		server.start()
	}
	for round, strike := range []func(*child){
		kill,
		func(holder *child) {
			if _, err := s.pool.Exec(t.Context(),
				"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'carillon locks on %:' || $1",
				strconv.Itoa(holder.pid())); err != nil {
				t.Error(err)
			}
		},
		func(holder *child) {
			holder.signal(syscall.SIGSTOP)
			s.eventually("no server takes over", func() bool { other := s.holder(); return other != nil && other != holder })
			holder.signal(syscall.SIGCONT)
		},
		kill,
	} {
		body := burst(organization, each)
		var sending sync.WaitGroup
		sending.Go(func() { // until one has taken all of it; nothing is taken twice
			for i := 0; !send(t, s.admins[i%2], s.token, body) && t.Context().Err() == nil; i++ {
				<-time.After(100 * time.Millisecond)
			}
		})
		s.eventually("the burst has not begun", func() bool {
			return seen.dispatched() > round*each+each/4 && s.holder() != nil
		})
		strike(s.holder())
		sending.Wait()
		t.Logf("round %d: %d dispatched when all was taken", round, seen.dispatched())
	}
	s.eventually("not all is dispatched", func() bool { return seen.dispatched() >= 4*each })
	var published []string
	seen.mu.Lock()
	for id, dispatches := range seen.made {
		published = append(published, id)
		if dispatches != 1 {
			t.Errorf("%s was dispatched %d times", id, dispatches)
		}
	}
	seen.mu.Unlock()
	if len(published) != 4*each {
		t.Errorf("%d events were published", len(published))
	}
	w.reconcile(published)
}

// dispatches counts those of each published event.
type dispatches struct {
	mu   sync.Mutex
	made map[string]int
	all  int
}

func (d *dispatches) add(event *eventstore.Recorded) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id := event.StreamID().String()
	if event.Category() == publication.Aggregate.Category {
		d.made[id] += 0
		return
	}
	d.made[id]++
	d.all++
}

func (d *dispatches) dispatched() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all
}

// holder is the server that runs the dispatcher; nil means none does.
func (s *several) holder() *child {
	process := dispatching(s.Context(), s.pool)
	for _, server := range s.servers {
		if strings.HasSuffix(process, ":"+strconv.Itoa(server.pid())) {
			return server
		}
	}
	return nil
}

// dispatching returns the name of the process that runs the dispatcher; "" if none does.
func dispatching(ctx context.Context, pool *pgxpool.Pool) string {
	statuses, err := projections.Statuses(ctx, pool)
	if err != nil {
		return ""
	}
	for _, status := range statuses {
		if status.Name == delivery.DispatcherName {
			return status.Process
		}
	}
	return ""
}
