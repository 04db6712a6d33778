//go:build nightly

package app_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// startApart runs a process with some of the roles, on an event store that others may share. Nobody looks for what
// became due unannounced: each turn is an hour.
func startApart(t *testing.T, roles ...string) *process {
	t.Helper()
	address := nodetest.Listen(t, node.Config{Dir: shortDir(t)})
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
// looking: a publication, a retry whose time comes, a replay, a backfill.
func TestApartNothingWaitsForALook(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject)
	p.beside(config.RoleDispatch)
	p.beside(config.RoleDeliver)
	url, arrived := p.endpoint(statuses(http.StatusServiceUnavailable, http.StatusOK))
	p.connect("crm", url, 0)
	p.publish()
	id := p.await(arrived).header.Get("webhook-id")
	assert.Equal(t, p.await(arrived).header.Get("webhook-id"), id, "came, want the retry")
	p.settled(id, "succeeded")
	p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	assert.Equal(t, p.await(arrived).header.Get("webhook-id"), id, "came, want the replay")
	url, later := p.endpoint(statuses(http.StatusOK))
	p.connect("later", url, 0)
	window := map[string]any{"since": time.Now().Add(-time.Hour), "until": time.Now().Add(time.Hour)}
	assert.Equal(t, p.backfill("later", window, 1), 1, "the backfill made … deliveries")
	p.await(later)
}

// held makes a destination that takes webhooks, and answers none before the test lets it.
func (p *process) held(name string) (arrived <-chan received, let chan struct{}) {
	p.Helper()
	let = make(chan struct{})
	url, arrived := p.endpoint(func(http.ResponseWriter, *http.Request, int) { p.untilClosed(let) })
	p.connect(name, url, 0)
	return arrived, let
}

const (
	allDue  = "SELECT count(*) FROM deliveries.due"
	heldDue = allDue + " WHERE worker IS NOT NULL"
	// inProgress is how many requests a destination gets before it has answered.
	inProgress = 4
)

// A deliverer that ends in order releases what it holds, and another one starts it without looking.
func TestApartOneDelivererEnds(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject, config.RoleDispatch)
	first := p.beside(config.RoleDeliver)
	const events = 20
	arrived, let := p.held("crm")
	for range events {
		p.publish()
	}
	p.eventually("the first has all of them", func() bool {
		return len(arrived) == inProgress && p.count(heldDue) == events
	})
	p.beside(config.RoleDeliver)
	ended := make(chan struct{})
	go func() { defer close(ended); first.close() }()
	p.eventually("the second has taken others over", func() bool {
		return p.count("SELECT count(DISTINCT worker) FROM deliveries.due") == 2
	})
	close(let)
	<-ended
	p.eventually("the second sends the others", func() bool { return p.count(allDue) == 0 })
	assert.Equal(t, len(arrived), events, "requests for deliveries")
}

// In the middle of a backlog a process that does not deliver disables the destination, or suspends the organization:
// requests in flight end, nothing else is sent and nothing stays leased. Once it is enabled or resumed all of it comes,
// once, without a look.
func TestApartDisabledElsewhere(t *testing.T) {
	for name, set := range map[string]func(p *process, on bool) (err error){
		"a destination": func(p *process, on bool) error {
			status := map[bool]string{true: "enabled", false: "disabled"}[on]
			p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": status}, http.StatusOK)
			return nil
		},
		"an organization": func(p *process, on bool) (err error) {
			if on {
				_, err = p.app.Commands.ResumeOrganization(p.Context(), operator(),
					command.ResumeOrganization{Organization: organization})
				return err
			}
			_, err = p.app.Commands.SuspendOrganization(p.Context(), operator(),
				command.SuspendOrganization{Organization: organization})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startApart(t, config.RoleAPI, config.RoleProject)
			p.beside(config.RoleDispatch)
			p.beside(config.RoleDeliver)
			const events = 40
			arrived, let := p.held("crm")
			for range events {
				p.publish()
			}
			p.eventually("all are there, and the first are in flight", func() bool {
				return len(arrived) == inProgress && p.count(allDue) == events
			})
			must.OK(t, set(p, false))
			p.eventually("waiting deliveries were released", func() bool { return p.count(heldDue) == inProgress })
			close(let)
			p.eventually("requests in flight have ended", func() bool { return p.count(allDue) == events-inProgress })
			n, held := len(arrived), p.count(heldDue)
			assert.True(t, n == inProgress && held == 0, "%d were sent, want %d, and %d are held", n, inProgress, held)
			must.OK(t, set(p, true))
			p.eventually("all is recorded", func() bool { return p.count(allDue) == 0 })
			assert.Equal(t, len(arrived), events, "requests for deliveries")
		})
	}
}

// No process has some of the roles: the others report missing runners, until one has them.
func TestConsumersWithoutRunnerAreNotReady(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject)
	other := p.beside(config.RoleDispatch, config.RoleDeliver, config.RoleCollect)
	ready := func() bool { status, _ := p.admin(http.MethodGet, "/readyz"); return status == http.StatusOK }
	p.eventually("it is ready, and the dispatcher has run", func() bool {
		_, has := p.positions()[dispatching.Name]
		return has && ready()
	})
	other.close()
	p.eventually("it is not ready", func() bool {
		status, body := p.admin(http.MethodGet, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "projection dispatcher (no process runs it)")
	})
	other.open()
	p.eventually("it is ready again", ready)
}

// A collector that does not answer delays neither deliveries nor, by more than 5 s, the end of the process.
func TestTracing_hangingCollector(t *testing.T) {
	released := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(func() { close(released); hanging.Close() })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	p := newProcess(t, nil)
	url, arrived := p.endpoint(statuses(http.StatusNoContent))
	p.connect("crm", url, 0)
	for range 20 {
		p.publishTraced("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		p.await(arrived)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); p.close() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the process did not end")
	}
}

// A private cluster whose binaries are gone is carried over: read models are rebuilt, and keys come from the key store.
func TestPrivateCluster_withoutBinaries(t *testing.T) {
	p := start(t, func(cfg *config.Config) {
		cfg.DatabaseURL = ""
		if err := os.Chmod(cfg.DataDir, 0o711); err != nil { //nolint:gosec // Postgres' own user passes through
			t.Error(err)
		}
	})
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	p.close()
	version := filepath.Join(p.cfg.DataDir, "postgres", "pgdata", "PG_VERSION")
	must.OK(t, os.WriteFile(version, []byte("99\n"), 0o600))
	keys, aside := p.keyStore(), filepath.Join(p.cfg.DataDir, "aside")
	must.OK(t, os.Rename(keys, aside))
	if err := p.refusedStart(); !strings.Contains(err.Error(), "only copy of the data keys") {
		t.Errorf("without a key store: %v", err)
	}
	must.OK(t, os.Rename(aside, keys))
	p.open()
	assert.Equal(t, p.shown("crm"), want, "another secret")
}
