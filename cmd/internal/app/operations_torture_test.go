//go:build nightly

package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
)

// The server is killed at any instant of a rotation of the master key. It comes up with all secrets, and the rotation
// ends.
var rotation = load{
	on:     layout{servers: 1, embedded: true},
	faults: []fault{serverKilled},
	least:  3,
	begin: func(c *cluster) run {
		const owned = 12
		if got := c.destinations(owned); got[http.StatusCreated] != owned {
			c.Fatalf("destinations are answered %v", got)
		}
		secrets := func() (all string) {
			for i := range owned {
				var got struct {
					Secrets []map[string]any `json:"secrets"`
				}
				c.eventually("a secret is read", func() bool {
					return c.did(http.MethodGet, fmt.Sprintf("%s%sd%d/secrets", c.apis[0], destinations, i), nil, &got)
				})
				all += fmt.Sprintln(got.Secrets[0]["secret"])
			}
			return all
		}
		file := filepath.Join(c.data, config.MasterKeyFile)
		master := func() string {
			key, err := os.ReadFile(file) //nolint:gosec // of our own server
			if err != nil {
				c.Fatal(err)
			}
			return string(key)
		}
		want, first := secrets(), master()
		rotated := func() bool { return c.did(http.MethodPost, c.admins[0]+"/admin/keys/rotate-master", nil, nil) }
		return run{
			moment: func(int) {
				go rotated()
				time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond) //nolint:gosec // by chance
			},
			holds: func(s struck) {
				c.eventually("the server comes up", func() bool { return c.ready(0) })
				if secrets() != want {
					c.Fatalf("after kill %d secrets are others", s.i)
				}
				c.eventually("the rotation is finished", func() bool {
					_, err := os.Stat(file + ".next")
					return errors.Is(err, fs.ErrNotExist)
				})
			},
			ends: func() {
				c.eventually("the master key is rotated", rotated)
				if secrets() != want || master() == first {
					c.Errorf("the master key is the first: %t", master() == first)
				}
			},
		}
	},
}

// An organization whose deletion is cut off by kills is deleted to its end, by itself.
var deletion = load{
	on:     layout{servers: 1},
	faults: []fault{serverKilled},
	least:  3,
	most:   3,
	begin: func(c *cluster) run {
		const owned = 40
		if got := c.destinations(owned); got[http.StatusCreated] != owned {
			c.Fatalf("destinations are answered %v", got)
		}
		for range owned {
			c.eventually("a feed is made", func() bool {
				return c.did(http.MethodPost, c.apis[0]+"/feeds/events", map[string]any{"name": "n", "description": "d"}, nil)
			})
		}
		left := func() int {
			return c.count("SELECT (SELECT count(*) FROM destinations.destinations) + (SELECT count(*) " +
				"FROM feeds.feeds) + (SELECT count(*) FROM carillon.data_keys)")
		}
		c.eventually("all is there", func() bool { return left() == 3*owned })
		if !c.did(http.MethodDelete, c.admins[0]+"/admin/organizations/"+organization.String(), nil, nil) {
			c.Fatal("not deleted")
		}
		before := 3 * owned
		return run{
			holds: func(struck) {
				c.eventually("the deletion goes on", func() bool { n := left(); return n == 0 || n > 0 && n < before })
				before = left()
				c.Logf("%d are left", before)
			},
			ends: func() { c.eventually("the deletion ends", func() bool { return left() == 0 }) },
		}
	},
}

// notices is the receiver of the operators. It may hold its next request until the server is killed.
type notices struct {
	mu   sync.Mutex
	came map[string]map[string]int // by type and destination: answered requests by webhook-id
	hold chan struct{}             // closed by the request that is held. Optional
}

func (n *notices) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var envelope struct {
		Type string `json:"type"`
		Data struct {
			Destination string `json:"destinationId"`
		} `json:"data"`
	}
	if r.Method != http.MethodPost || json.UnmarshalRead(r.Body, &envelope) != nil {
		return // the probe, or killed in the middle
	}
	n.mu.Lock()
	about, answers := envelope.Type+" "+envelope.Data.Destination, 1
	if n.came[about] == nil {
		n.came[about] = map[string]int{}
	}
	hold := n.hold
	if n.hold = nil; hold != nil {
		answers = 0
	}
	n.came[about][r.Header.Get("webhook-id")] += answers
	n.mu.Unlock()
	if hold != nil {
		close(hold)
		<-r.Context().Done()
	}
}

// answered reports whether requests about a destination were answered.
func (n *notices) answered(kind, id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, answers := range n.came[kind+" "+id] {
		if answers > 0 {
			return true
		}
	}
	return false
}

// The server is killed between what the operators hear of and its delivery: at moments after the last answer of a
// destination, and while a notice is in flight. Each notice arrives after the restart, and again only under its id.
var operatorWebhooks = load{
	on:     layout{servers: 1, embedded: true},
	faults: []fault{serverKilled},
	least:  8,
	begin: func(c *cluster) run {
		operators := &notices{came: map[string]map[string]int{}}
		server := c.servers[0]
		server.Kill()
		server.Env = append(server.Env, "CHILD_OPERATORS="+serveTLS(c.T, c.data, operators.ServeHTTP)+"/hook")
		server.Start()
		c.eventually("the operators' address is there", func() bool {
			return c.count("SELECT count(*) FROM destinations.destinations WHERE organization = '"+
				destination.Operators.String()+"'") == 1
		})
		answered := make(chan struct{}, 1000)
		gone := serveTLS(c.T, c.data, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusGone)
				answered <- struct{}{}
			}
		})
		const held = -1 // while a notice is in flight
		moments := []time.Duration{0, held, 5 * time.Millisecond, 10 * time.Millisecond, held, 20 * time.Millisecond,
			40 * time.Millisecond, 80 * time.Millisecond}
		var ids []string
		return run{
			moment: func(i int) {
				id, _ := c.subscribed(fmt.Sprint("gone-", i), gone, "news.*")
				ids = append(ids, id)
				kill, moment := answered, moments[i%len(moments)]
				if moment == held {
					kill = make(chan struct{})
					operators.mu.Lock()
					operators.hold = kill
					operators.mu.Unlock()
				}
				c.eventually("an event is published", func() bool {
					return c.did(http.MethodPost, c.admins[0]+"/admin/events", jsontext.Value(event(organization)), nil)
				})
				select {
				case <-kill:
				case <-time.After(patience):
					c.Fatal("the moment does not come")
				}
				time.Sleep(max(0, moment))
			},
			ends: func() {
				for _, id := range ids {
					for _, kind := range []string{"delivery.exhausted", "destination.auto_disabled"} {
						c.eventually("a notice arrives", func() bool { return operators.answered(kind, id) })
					}
				}
				operators.mu.Lock()
				defer operators.mu.Unlock()
				for about, webhooks := range operators.came {
					if len(webhooks) != 1 {
						c.Errorf("%s came as %v", about, webhooks)
					}
				}
			},
		}
	},
}
