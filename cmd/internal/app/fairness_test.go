//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/command"
)

// crowd is many destinations of one organization that hang: they take a webhook and don't answer before the test ends.
type crowd struct {
	p            *process
	organization uuid.UUID

	mu    sync.Mutex
	taken int  // webhooks that they have not answered
	quick bool // they answer at once
}

func (p *process) crowd(organization uuid.UUID, destinations int) *crowd {
	p.Helper()
	c := &crowd{p: p, organization: organization}
	url := p.serve(func(_ http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		quick := c.quick || r.Method != http.MethodPost
		if !quick {
			c.taken++
		}
		c.mu.Unlock()
		if !quick {
			<-p.Context().Done() // until the test ends
		}
	})
	by := command.Caller{Organization: organization, Actor: "operator", RequestID: uuid.New()}
	var making sync.WaitGroup
	for worker := range 8 {
		making.Go(func() {
			for i := worker; i < destinations; i += 8 {
				d, err := p.app.Commands.CreateDestination(p.Context(), by, command.CreateDestination{
					DestinationSettings: command.DestinationSettings{
						Settings: destination.Settings{Name: "crowd", URL: fmt.Sprint(url, "/", i)},
					},
				})
				if err == nil {
					_, err = p.app.Commands.CreateSubscription(p.Context(), by, command.CreateSubscription{
						Destination: d.ID,
						Settings:    everything,
					})
				}
				if err != nil {
					p.Errorf("destination %d: %v", i, err)
				}
			}
		})
	}
	making.Wait()
	return c
}

// publish publishes to all of them, and to other subscribers in the organization.
func (c *crowd) publish(events int) {
	c.p.Helper()
	var publishing sync.WaitGroup
	for worker := range 8 {
		publishing.Go(func() {
			for i := worker; i < events; i += 8 {
				_, err := c.p.app.Commands.Publish(c.p.Context(), operator(), command.Publish{
					Type:         "news.item.added",
					Source:       "/crowd",
					Organization: c.organization,
					Data:         []byte(`{"id":"7","title":"Storm"}`),
				})
				if err != nil {
					c.p.Error(err)
				}
			}
		})
	}
	publishing.Wait()
}

// hangs waits until they have taken that many.
func (c *crowd) hangs(atLeast int) {
	c.p.Helper()
	c.p.eventually("the crowd hangs", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.taken >= atLeast
	})
}

// neighbour is a destination that refuses each webhook once and takes it the second time.
type neighbour struct {
	p    *process
	name string
	url  string

	mu   sync.Mutex
	came map[string]int // by webhook-id
}

func (p *process) neighbour(name string) *neighbour {
	p.Helper()
	n := &neighbour{p: p, name: name, came: map[string]int{}}
	n.url = p.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		id := r.Header.Get("webhook-id")
		if n.came[id]++; n.came[id] == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	// Beside a crowd a busy machine may take its time: a PUT can be tried again.
	put := func(path string, body map[string]any) {
		p.eventually(path+" is there", func() bool {
			status, _ := p.try(http.MethodPut, path, body)
			return status == http.StatusOK || status == http.StatusCreated
		})
	}
	put(destinations+name, map[string]any{"name": name, "config": map[string]any{"url": n.url}})
	put(destinations+name+"/subscriptions/news", map[string]any{"eventTypes": []string{"news.*"}, "scopeKind": "all"})
	return n
}

// soon is far longer than an undelayed delivery takes, and far shorter than the crowd hangs.
const soon = 45 * time.Second

// got waits until n webhooks have come a number of times.
func (n *neighbour) got(what string, webhooks, times int) {
	n.p.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(soon); ; <-tick.C {
		n.mu.Lock()
		came, known := 0, len(n.came)
		for _, requests := range n.came {
			if requests >= times {
				came++
			}
		}
		n.mu.Unlock()
		if came >= webhooks {
			return
		}
		if time.Now().After(deadline) {
			n.p.Fatalf("%s: %d of %d webhooks came %d times, %d came at all", what, came, webhooks, times, known)
		}
	}
}

// isHeldBackByNobody takes fresh deliveries, retries, a replay and a backfill, while others hang.
func (n *neighbour) isHeldBackByNobody(processes ...*process) {
	n.p.Helper()
	began := time.Now()
	n.mu.Lock()
	before := len(n.came)
	n.mu.Unlock()
	const each = 25
	var last uuid.UUID
	for _, p := range processes {
		for range each {
			last = p.announce("neighbour", uuid.Nil)
		}
	}
	all := before + each*len(processes)
	n.got("retries", all, 2)
	n.p.Logf("fresh deliveries and retries: %s", time.Since(began))

	destination, _ := n.p.call(http.MethodGet, destinations+n.name, nil, http.StatusOK)["id"].(string)
	id := deliveryOf(last, destination)
	n.p.settled(id, "succeeded")
	began = time.Now()
	n.p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	n.got("a replay", 1, 3)
	n.p.Logf("a replay: %s", time.Since(began))

	began = time.Now()
	later := n.p.neighbour(n.name + "-later")
	window := map[string]any{
		"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"until": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	}
	made := n.p.backfill(later.name, window, each)
	if made < each {
		n.p.Errorf("backfill made %v", made)
	}
	later.got("a backfill", int(made), 2)
	n.p.Logf("a backfill of %g: %s", made, time.Since(began))
}

// Whatever other destinations do, of the same organization or another, a destination that answers gets its events,
// retries, replays and backfills.
func TestDeliveryFairness(t *testing.T) {
	for name, tt := range map[string]struct {
		destinations, events int
		warm                 bool // they answer quickly before they hang
		processes            int
	}{
		// They fill their queues, which are no room that others could claim for.
		"ten destinations that are overloaded": {destinations: 10, events: 330, processes: 1},
		// Together they would take more requests at one time than there are in all.
		"forty destinations that answer quickly until they hang": {
			destinations: 40,
			events:       80,
			warm:         true,
			processes:    1,
		},
		"150 destinations that hang":                       {destinations: 150, events: 20, processes: 1},
		"150 destinations that hang, beside two processes": {destinations: 150, events: 40, processes: 2},
	} {
		for _, of := range []string{"the own organization", "another organization"} {
			t.Run(name+", of "+of, func(t *testing.T) {
				address := startNode(t)
				p := start(t, func(c *config.Config) {
					c.EventStoreURL = config.Address("esdb://" + address + "?tls=false")
					c.DeliveryTimeout, c.AutoDisableAfter = 5*time.Minute, 1_000_000
				})
				processes := []*process{p}
				if tt.processes == 2 {
					second := &process{TB: t, cfg: p.cfg, organization: organization}
					second.cfg.HTTPAddr, second.cfg.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
					second.open()
					processes = append(processes, second)
				}
				theirs := organization
				if !strings.Contains(of, "own") {
					made, err := p.app.Commands.RegisterOrganization(t.Context(), operator(),
						command.RegisterOrganization{Name: "Crowd"})
					if err != nil {
						t.Fatal(err)
					}
					theirs = made.ID
				}
				c := p.crowd(theirs, tt.destinations)
				if tt.warm {
					c.quick = true
					c.publish(100)
					p.eventually("the crowd has answered", func() bool {
						queued := 0
						if err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM deliveries.due").
							Scan(&queued); err != nil {
							t.Fatal(err)
						}
						return queued == 0
					})
					c.mu.Lock()
					c.quick = false
					c.mu.Unlock()
				}
				c.publish(tt.events)
				c.hangs(tt.destinations)
				p.neighbour("neighbour").isHeldBackByNobody(processes...)
			})
		}
	}
}
