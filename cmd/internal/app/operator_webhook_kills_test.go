//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/aggregates/destination"
)

// noticed is the receiver of the operators. Its next request may be held until the server is killed.
type noticed struct {
	mu   sync.Mutex
	came map[string]map[string]int // by type and destination: answered requests by webhook-id
	hold chan struct{}             // closed by the request that is held. Optional
}

func (n *noticed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		return // the probe
	}
	var envelope struct {
		Type string `json:"type"`
		Data struct {
			Destination string `json:"destinationId"`
		} `json:"data"`
	}
	if err := json.UnmarshalRead(r.Body, &envelope); err != nil {
		return // killed in the middle
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

// answered returns the number of requests about a destination that were answered.
func (n *noticed) answered(kind, id string) (requests int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, answers := range n.came[kind+" "+id] {
		requests += answers
	}
	return requests
}

// The server is killed between what the operators hear of and its delivery: at moments after the last answer of a
// destination, and while a notice is in flight. Each notice arrives after the restart, and again only under its id.
func TestOperatorWebhookIsDeliveredAfterKills(t *testing.T) {
	s := newSeveral(t, 1, true)
	server := s.servers[0]
	operators := &noticed{came: map[string]map[string]int{}}
	p := &process{TB: t}
	p.cfg.DataDir = s.data
	server.kill()
	server.env = append(server.env, "CHILD_OPERATORS="+p.serve(operators.ServeHTTP))
	server.start()
	s.eventually("the operators' address is there", func() bool {
		return s.count("SELECT count(*) FROM destinations.destinations WHERE organization = '"+
			destination.Operators.String()+"'") == 1
	})
	answered := make(chan struct{}, 100)
	gone := p.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusGone)
			answered <- struct{}{}
		}
	})
	const held = -1
	moments := []time.Duration{0, held, 5 * time.Millisecond, 10 * time.Millisecond, held, 20 * time.Millisecond,
		40 * time.Millisecond, 80 * time.Millisecond}
	ids := make([]string, len(moments))
	for i, moment := range moments {
		path := s.apis[0] + destinations + fmt.Sprint("gone-", i)
		var made struct {
			ID string `json:"id"`
		}
		s.eventually("a destination is made", func() bool {
			return s.ask(http.MethodPut, path, map[string]any{"name": "gone", "config": map[string]any{"url": gone}}, &made)/100 == 2
		})
		ids[i] = made.ID
		s.eventually("it is subscribed", func() bool {
			return s.ask(http.MethodPut, path+"/subscriptions/news",
				map[string]any{"eventTypes": []string{"news.*"}, "scopeKind": "all"}, nil)/100 == 2
		})
		hold := make(chan struct{})
		if moment == held {
			operators.mu.Lock()
			operators.hold = hold
			operators.mu.Unlock()
		}
		s.eventually("an event is published", func() bool {
			return s.ask(http.MethodPost, s.admins[0]+"/admin/events", jsontext.Value(event(organization)), nil)/100 == 2
		})
		kill := answered
		if moment == held {
			kill = hold
		}
		s.eventually("the moment has come", func() bool {
			select {
			case <-kill:
				return true
			default:
				return false
			}
		})
		time.Sleep(max(0, moment))
		server.kill()
		server.start()
	}
	requests := 0
	for _, id := range ids {
		for _, kind := range []string{"delivery.exhausted", "destination.auto_disabled"} {
			s.eventually("a notice has arrived", func() bool { return operators.answered(kind, id) > 0 })
			requests += operators.answered(kind, id)
		}
	}
	operators.mu.Lock()
	defer operators.mu.Unlock()
	for about, webhooks := range operators.came {
		if len(webhooks) != 1 {
			t.Errorf("%s came as %v", about, webhooks)
		}
	}
	t.Logf("%d kills: %d notices arrived in %d requests", len(moments), len(operators.came), requests)
}
