package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

// several are server processes on one Postgres, and on one event store; one server may have the embedded one.
type several struct {
	*testing.T
	pool         *pgxpool.Pool
	data, store  string // of the store its URL; empty: embedded
	servers      []*child
	apis, admins []string
	key, token   string
}

func newSeveral(t *testing.T, n int, embedded bool) *several {
	t.Helper()
	t.Parallel()
	dir := shortDir(t)
	database := pgtest.NewServer(t)
	s := &several{T: t, pool: database.Pool(), data: filepath.Join(dir, "data")}
	if !embedded {
		_, s.store = startNodeChild(t, dir)
	}
	for range n {
		server, api, admin := startServerChild(t, s.data, s.store, database.URL())
		s.apis, s.admins = append(s.apis, api), append(s.admins, admin)
		s.servers = append(s.servers, server)
		s.eventually("a server did not come up", func() bool {
			var err error
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

// ask sends a request, decodes what it is answered with, and gives the status; 0 if there is no answer.
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
