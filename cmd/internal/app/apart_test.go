//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/command/delivery"
)

// startApart runs a process with some of the roles, on an event store that others may share. Nobody looks for what
// became due without being told of it: each turn is an hour.
func startApart(t *testing.T, roles ...string) *process {
	t.Helper()
	address := startNode(t)
	t.Parallel()
	p := prepare(t, func(c *config.Config) {
		c.EventStoreURL = config.Address("esdb://" + address + "?tls=false")
		c.Roles = roles
		c.DeliveryRetrySchedule = []time.Duration{time.Second, time.Second}
	})
	p.look = time.Hour
	p.open()
	return p
}

// beside runs another process with some of the roles.
func (p *process) beside(roles ...string) *process {
	p.Helper()
	other := &process{TB: p.TB, cfg: p.cfg, organization: p.organization, look: p.look}
	other.cfg.HTTPAddr, other.cfg.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
	other.cfg.Roles = roles
	other.open()
	return other
}

// Dispatching and delivering are separate processes. Whatever makes a delivery due, the deliverer starts it without
// looking: a publication, a retry whose time comes, a replay, a backfill. (For enabled and resumed destinations see
// two_processes_test.go.)
func TestApartNothingWaitsForALook(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject)
	p.beside(config.RoleDispatch)
	p.beside(config.RoleDeliver)
	_, arrived := p.subscribed(func(n int) int {
		if n == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	p.publish()
	id := p.await(arrived).header.Get("webhook-id")
	if again := p.await(arrived).header.Get("webhook-id"); again != id {
		t.Errorf("%s came, want the retry of %s", again, id)
	}
	p.settled(id, "succeeded")
	p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	if again := p.await(arrived).header.Get("webhook-id"); again != id {
		t.Errorf("%s came, want the replay of %s", again, id)
	}
	url, later := p.receiver(func(int) int { return http.StatusOK })
	p.connect("later", url, 0)
	window := map[string]any{"since": time.Now().Add(-time.Hour), "until": time.Now().Add(time.Hour)}
	if made := p.backfill("later", window, 1); made != 1 {
		t.Errorf("the backfill made %v deliveries", made)
	}
	p.await(later)
}

// A deliverer that ends in order gives back what it holds, and another one starts it without looking.
func TestApartOneDelivererEnds(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject, config.RoleDispatch)
	first := p.beside(config.RoleDeliver)
	const events, underWay = 20, 4 // as many as a destination gets before it has answered
	let := make(chan struct{})
	came := make(chan string, 2*events)
	p.connect("crm", p.serve(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		came <- r.Header.Get("webhook-id")
		p.untilClosed(let)
	}), 0)
	for range events {
		p.publish()
	}
	p.eventually("the first has all of them", func() bool {
		return len(came) == underWay && p.count("SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL") == events
	})
	p.beside(config.RoleDeliver)
	ended := make(chan struct{})
	go func() { defer close(ended); first.close() }()
	p.eventually("the second has taken others over", func() bool {
		return p.count("SELECT count(DISTINCT worker) FROM deliveries.due") == 2
	})
	close(let)
	<-ended
	p.eventually("the second sends the others", func() bool { return p.count("SELECT count(*) FROM deliveries.due") == 0 })
	if len(came) != events {
		t.Errorf("%d requests for %d deliveries", len(came), events)
	}
}

// attempts returns how many attempts a process has made.
func (p *process) attempts() (n int) {
	p.Helper()
	families, err := p.app.Metrics.Gather()
	if err != nil {
		p.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "carillon_delivery_attempt_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += int(m.GetHistogram().GetSampleCount()) //nolint:gosec // some thousands
		}
	}
	return n
}

// Two deliverers share a backlog: each sends 40 to 60 % of it, all of it once, and neither holds more than it sends soon.
func TestApartShareABacklog(t *testing.T) {
	const places, events, atOnce = 10, 2_000, 16
	p := startApart(t, config.RoleAPI, config.RoleProject, config.RoleDispatch)
	var came atomic.Int64
	let := make(chan struct{})
	address := p.serveAll(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			came.Add(1)
			p.untilClosed(let)
		}
	})
	for i := range places {
		p.connect(fmt.Sprint("d", i), fmt.Sprint(address, "/", i), 0)
	}
	var publishing sync.WaitGroup
	for range atOnce {
		publishing.Go(func() {
			for range events / atOnce {
				p.publish()
			}
		})
	}
	publishing.Wait()
	due := func() int { return p.count("SELECT count(*) FROM deliveries.due") }
	p.eventually("all are due", func() bool { return due() == places*events })
	p.look = 0
	deliverers := []*process{p.beside(config.RoleDeliver), p.beside(config.RoleDeliver)}
	p.eventually("both have some", func() bool {
		return p.count("SELECT count(DISTINCT worker) FROM deliveries.due") == len(deliverers)
	})
	close(let)
	most := 0
	p.eventually("all is recorded", func() bool {
		most = max(most, p.count("SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL"))
		return due() == 0
	})
	first, second := deliverers[0].attempts(), deliverers[1].attempts()
	if all := places * events; first+second != all || int(came.Load()) != all || first < all*2/5 || second < all*2/5 {
		t.Errorf("%d and %d attempts, %d requests, want %d, by each at least 40 %%", first, second, came.Load(), all)
	}
	// A row is held until its outcome is projected, a little longer than the deliverer has it.
	if perDeliverer := delivery.DefaultSettings.Queued / 4; most > 3*perDeliverer {
		t.Errorf("%d were held at one time, want %d at most", most, 3*perDeliverer)
	}
	t.Logf("%d and %d attempts, %d held at most", first, second, most)
}
