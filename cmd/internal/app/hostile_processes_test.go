package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

// several are server processes on one Postgres, and on one event store: a process of its own, or for one server the
// embedded one.
type several struct {
	*testing.T
	pool         *pgxpool.Pool
	data, store  string // of the store its address; empty: embedded
	servers      []*child
	apis, admins []string
	key, token   string
}

func newSeveral(t *testing.T, n int, embedded bool) *several {
	t.Helper()
	t.Parallel()
	dir, err := os.MkdirTemp(pgtest.FastDir(), "several")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	database := pgtest.NewServer(t)
	s := &several{T: t, pool: database.Pool(), data: filepath.Join(dir, "data")}
	if !embedded {
		address := freePort(t)
		node := &child{t: t, env: []string{childRole + "=node", "CHILD_API=" + address, "CHILD_DATA=" + filepath.Join(dir, "store")}}
		node.start()
		t.Cleanup(func() { node.kill() })
		s.store = "esdb://" + address + "?tls=false"
	}
	for range n {
		api, admin := freePort(t), freePort(t)
		s.apis, s.admins = append(s.apis, "http://"+api), append(s.admins, "http://"+admin)
		server := &child{t: t, env: []string{
			childRole + "=server", "CHILD_API=" + api, "CHILD_ADMIN=" + admin, "CHILD_DATA=" + s.data,
			"CHILD_STORE=" + s.store, "CHILD_DATABASE=" + database.URL(),
		}}
		server.start()
		t.Cleanup(func() { server.kill() })
		s.servers = append(s.servers, server)
		s.eventually("a server did not come up", func() bool {
			if s.key, err = dev.ReadKey(s.data); err != nil {
				return false
			}
			s.token, err = (&config.Client{DataDir: s.data}).Token()
			return err == nil && s.ready(len(s.servers)-1)
		})
	}
	return s
}

func (s *several) ready(i int) bool {
	return s.ask(http.MethodGet, s.admins[i]+"/readyz", nil, nil) == http.StatusOK
}

// ask sends a request, decodes what it is answered with, and gives the status; 0 where there is no answer.
func (s *several) ask(method, url string, body, into any) int {
	raw := []byte{}
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			s.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(s.Context(), method, url, bytes.NewReader(raw))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.key)
	if strings.Contains(url, "/admin/") {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := impatient.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0
	}
	if into != nil && response.StatusCode < http.StatusMultipleChoices {
		if err := json.Unmarshal(text, &struct {
			Data any `json:"data"`
		}{into}); err != nil {
			s.Fatalf("%s: %s: %v", url, text, err)
		}
	}
	return response.StatusCode
}

func (s *several) eventually(what string, is func() bool) {
	s.Helper()
	poll(s.T, patience, what, is)
}

// destinations makes some, by all servers in turn, and counts the answers by status.
func (s *several) destinations(n int) map[int]int {
	var mu sync.Mutex
	var making sync.WaitGroup
	statuses := map[int]int{}
	for i := range n {
		making.Go(func() {
			status := s.ask(http.MethodPut, fmt.Sprintf("%s/events/destinations/d%d", s.apis[i%len(s.apis)], i),
				map[string]any{"name": "d", "config": map[string]any{"url": nowhere}}, nil)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	making.Wait()
	return statuses
}

func (s *several) count(question string) int {
	n := -1
	_ = s.pool.QueryRow(s.Context(), question).Scan(&n)
	return n
}

// TestHostileLimitsOverTwoProcesses: of what is asked of two real processes at the same time no more gets through than
// of one.
func TestHostileLimitsOverTwoProcesses(t *testing.T) {
	const most, tries, perSecond = 5, 24, 40
	s := newSeveral(t, 2, false)
	limits := s.admins[1] + "/admin/organizations/" + organization.String() + "/limits"
	if status := s.ask(http.MethodPut, limits, map[string]int{"destinations": most}, nil); status != http.StatusOK {
		t.Fatalf("limits: %d", status)
	}
	if got := s.destinations(tries); got[http.StatusCreated] != most || got[http.StatusConflict] != tries-most {
		t.Errorf("destinations are answered %v, want %d of 201 and the rest of 409", got, most)
	}
	s.eventually("other destinations are there", func() bool { return s.count("SELECT count(*) FROM destinations.destinations") == most })

	if status := s.ask(http.MethodPut, limits, map[string]int{"requestsPerSecond": perSecond}, nil); status != http.StatusOK {
		t.Fatalf("limits: %d", status)
	}
	for _, api := range s.apis { // until each knows of it
		s.eventually("nothing is refused", func() bool {
			var refused atomic.Bool
			var many sync.WaitGroup
			for range 2 * perSecond {
				many.Go(func() {
					if s.ask(http.MethodGet, api+"/events/types", nil, nil) == http.StatusTooManyRequests {
						refused.Store(true)
					}
				})
			}
			many.Wait()
			return refused.Load()
		})
	}
	var mu sync.Mutex
	var asking sync.WaitGroup
	statuses := map[int]int{}
	began := time.Now()
	for i := range 8 {
		asking.Go(func() {
			for range 100 {
				status := s.ask(http.MethodGet, s.apis[i%2]+"/events/types", nil, nil)
				mu.Lock()
				statuses[status]++
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	passed, room := statuses[http.StatusOK], perSecond*(1+time.Since(began).Seconds()) // a second's worth may have come together
	if float64(passed) > room || passed+statuses[http.StatusTooManyRequests] != 800 {
		t.Errorf("in %s: %v, want at most %.0f of 200 and the rest of 429", time.Since(began), statuses, room)
	}
}

// TestHostileKillsInADeletion: an organization whose deletion is cut off by kills is deleted to its end, by itself.
func TestHostileKillsInADeletion(t *testing.T) {
	const owned = 40
	s := newSeveral(t, 1, false)
	if got := s.destinations(owned); got[http.StatusCreated] != owned {
		t.Fatalf("destinations are answered %v", got)
	}
	for i := range owned {
		if status := s.ask(http.MethodPost, s.apis[0]+"/feeds/events", map[string]any{"name": fmt.Sprint(i), "description": "d"}, nil); status != http.StatusCreated {
			t.Fatalf("feed: %d", status)
		}
	}
	left := func() int {
		return s.count("SELECT (SELECT count(*) FROM destinations.destinations) + (SELECT count(*) FROM feeds.feeds) + (SELECT count(*) FROM carillon.data_keys)")
	}
	s.eventually("not all is there", func() bool { return left() == 3*owned })
	if status := s.ask(http.MethodDelete, s.admins[0]+"/admin/organizations/"+organization.String(), nil, nil); status != http.StatusOK {
		t.Fatalf("deletion: %d", status)
	}
	var seen []int
	for range 3 {
		s.servers[0].kill()
		seen = append(seen, left())
		s.servers[0].start()
		before := seen[len(seen)-1]
		s.eventually("the deletion does not go on", func() bool { n := left(); return n == 0 || n >= 0 && n < before })
	}
	s.eventually("the deletion does not come to its end", func() bool { return left() == 0 })
	t.Logf("of %d were left at the kills: %v", 3*owned, seen)
}

// TestHostileCredentialsEndEverywhere: a key and an operator's token that are rotated without an overlap, or revoked, by one
// process are refused by the other as well, and what came in their place opens both.
func TestHostileCredentialsEndEverywhere(t *testing.T) {
	s := newSeveral(t, 2, false)
	status := func(url, credential string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+credential)
		answer, err := impatient.Do(request)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	var issued struct {
		ID    string `json:"id"`
		Key   string `json:"key"`
		Token string `json:"token"`
	}
	change := func(method, path string, body any, want int) {
		t.Helper()
		if got := s.ask(method, s.admins[0]+path, body, &issued); got != want {
			t.Fatalf("%s %s: %d", method, path, got)
		}
	}
	everywhere := func(what string, want int, credential string, urls ...string) {
		t.Helper()
		for _, url := range urls {
			s.eventually(fmt.Sprintf("%s is not answered %d by %s", what, want, url), func() bool { return status(url, credential) == want })
		}
		for _, url := range urls { // and what has ended does not come back
			if got := status(url, credential); got != want && got != 0 {
				t.Errorf("%s is answered %d by %s, after %d", what, got, url, want)
			}
		}
	}
	apis := []string{s.apis[0] + "/events/types", s.apis[1] + "/events/types"}
	admins := []string{s.admins[0] + "/admin/organizations", s.admins[1] + "/admin/organizations"}
	keys, now := "/admin/organizations/"+organization.String()+"/keys", map[string]int{"overlapSeconds": 0}

	change(http.MethodPost, keys, map[string]string{"name": "web site"}, http.StatusCreated)
	first := issued
	everywhere("a new key", http.StatusOK, first.Key, apis...)
	change(http.MethodPost, keys+"/"+first.ID+"/rotate", now, http.StatusCreated)
	second := issued
	everywhere("a rotated key", http.StatusUnauthorized, first.Key, apis...)
	everywhere("its successor", http.StatusOK, second.Key, apis...)
	change(http.MethodDelete, keys+"/"+second.ID, nil, http.StatusOK)
	everywhere("a revoked key", http.StatusUnauthorized, second.Key, apis...)

	change(http.MethodPost, "/admin/operators", map[string]string{"name": "ann"}, http.StatusCreated)
	before := issued
	everywhere("a new token", http.StatusOK, before.Token, admins...)
	change(http.MethodPost, "/admin/operators/ann/rotate", now, http.StatusCreated)
	after := issued
	everywhere("a rotated token", http.StatusUnauthorized, before.Token, admins...)
	everywhere("its successor", http.StatusOK, after.Token, admins...)
	change(http.MethodDelete, "/admin/operators/ann", nil, http.StatusOK)
	everywhere("a revoked token", http.StatusUnauthorized, after.Token, admins...)
}
