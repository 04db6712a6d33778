package app_test

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/eventstore/node"
)

// fleet is several destinations behind one TLS server; each path is one of them, and /hangs does not answer.
type fleet struct {
	mu   sync.Mutex
	came map[string]map[string]int // by path: by webhook-id
	url  string
}

func (p *process) fleet(paths ...string) *fleet {
	p.Helper()
	f := &fleet{came: map[string]map[string]int{}}
	f.url = p.serveAll(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		if r.URL.Path == "/hangs" {
			<-p.Context().Done() // until the test ends
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.came[r.URL.Path][r.Header.Get("webhook-id")]++
	})
	for _, path := range paths {
		f.came[path] = map[string]int{}
		d := p.call(http.MethodPost, "/events/destinations", map[string]any{
			"name":   path,
			"config": map[string]any{"url": f.url + path},
		}, http.StatusCreated)
		p.call(http.MethodPost, fmt.Sprintf("/events/destinations/%s/subscriptions", d["id"]),
			map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"}, http.StatusCreated)
	}
	return f
}

// all waits until every destination but the hanging one has got n different deliveries.
func (f *fleet) all(t *testing.T, n int) {
	t.Helper()
	poll(t, patience, fmt.Sprintf("each destination has got %d", n), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		for path, came := range f.came {
			if path != "/hangs" && len(came) < n {
				return false
			}
		}
		return true
	})
}

// A destination that hangs holds back no other of its organization, and one event reaches many destinations by one
// append.
func TestDestinations_manyBesideOneThatHangs(t *testing.T) {
	p := shared(t)
	f := p.fleet("/hangs", "/0", "/1")
	const events, more = 80, 60 // more than fit in flight to one destination
	for range events {
		p.publish()
	}
	f.all(t, events) // while the first still hangs: it is let go only when the test ends

	g := p.fleet()
	by := command.Caller{Organization: p.organization, Actor: "operator", RequestID: uuid.New()}
	for i := range more {
		path := fmt.Sprint("/", i)
		g.mu.Lock()
		g.came[path] = map[string]int{}
		g.mu.Unlock()
		d, err := p.app.Commands.CreateDestination(t.Context(), by, command.CreateDestination{
			DestinationSettings: command.DestinationSettings{
				Settings: destination.Settings{Name: path, URL: g.url + path},
			},
		})
		if err == nil {
			_, err = p.app.Commands.CreateSubscription(t.Context(), by, command.CreateSubscription{
				Destination: d.ID,
				Settings:    everything,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	p.publish()
	g.all(t, 1)
}

// Two processes on one event store and one Postgres: both work, and when one leaves, the other goes on. The one without
// the API role does not listen on the API's address.
func TestTwoProcesses_shareTheWork(t *testing.T) {
	address := startNode(t)
	first := start(t, func(c *config.Config) { c.EventStoreURL = config.Address("esdb://" + address + "?tls=false") })
	second := &process{TB: t, cfg: first.cfg, organization: organization}
	second.cfg.HTTPAddr, second.cfg.AdminAddr = first.app.APIAddr().String(), "127.0.0.1:0"
	second.cfg.Roles = []string{config.RoleProject, config.RoleDispatch, config.RoleDeliver}
	second.open()
	f := first.fleet("/0", "/1", "/2")
	for range 50 {
		first.publish()
		second.publish()
	}
	f.all(t, 100)
	first.close()
	for range 50 {
		second.publish()
	}
	f.all(t, 150)
}

func startNode(t *testing.T) (address string) {
	t.Helper()
	dir := shortDir(t)
	n, err := node.Open(node.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}
