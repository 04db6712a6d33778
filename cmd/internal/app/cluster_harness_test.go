package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/suite/children"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/pgtest"
)

var impatient = &http.Client{Timeout: 30 * time.Second}

// installation is a data directory, and the addresses of the servers that use it.
type installation struct {
	*testing.T
	data, key, token string
	apis, admins     []string
}

// credentials reports whether the credentials for developers are there, and reads them.
func (in *installation) credentials() bool {
	var err error
	if in.key, err = dev.ReadKey(in.data); err == nil {
		in.token, err = (&config.Client{DataDir: in.data}).Token()
	}
	return err == nil
}

// ask sends a request, decodes the answer, and returns the status; 0 if there is no answer.
func (in *installation) ask(method, url string, body, into any) int {
	var sent []byte
	if body != nil {
		sent = must.Get(json.Marshal(body))(in)
	}
	request := must.Get(http.NewRequestWithContext(in.Context(), method, url, bytes.NewReader(sent)))(in)
	request.Header.Set("Authorization", "Bearer "+in.key)
	if strings.Contains(url, "/admin/") {
		request.Header.Set("Authorization", "Bearer "+in.token)
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
			in.Fatalf("%s: %s: %v", url, text, err)
		}
	}
	return response.StatusCode
}

// did reports whether a request succeeded.
func (in *installation) did(method, url string, body, into any) bool {
	return in.ask(method, url, body, into)/100 == 2
}

func (in *installation) eventually(what string, is func() bool) {
	in.Helper()
	poll(in.T, patience, what, is)
}

func (in *installation) ready(server int) bool {
	return in.did(http.MethodGet, in.admins[server]+"/readyz", nil, nil)
}

// subscribed makes a destination, by its external id, that is subscribed to events of some types.
func (in *installation) subscribed(name, url string, types ...string) (id, secret string) {
	in.Helper()
	var made struct {
		ID      string              `json:"id"`
		Secrets []map[string]string `json:"secrets"`
	}
	path := in.apis[0] + destinations + name
	in.eventually("destination "+name+" is made", func() bool {
		body := map[string]any{"name": name, "config": map[string]any{"url": url}}
		return in.did(http.MethodPut, path, body, &made)
	})
	in.eventually("destination "+name+" is subscribed", func() bool {
		body := map[string]any{"eventTypes": types, "scopeKind": "all"}
		return in.did(http.MethodPut, path+"/subscriptions/s", body, nil)
	})
	return made.ID, made.Secrets[0]["secret"]
}

// layout says which processes a cluster has.
type layout struct {
	servers   int
	roles     []string // of each server, with commas. Optional: all but collecting
	embedded  bool     // the event store is in the one server
	severable bool     // connections of servers to their stores can be cut
	env       []string // of the servers
}

// cluster is a number of server processes on one Postgres and one event store.
type cluster struct {
	*installation
	database            *pgtest.Server
	pool                *pgxpool.Pool
	store               string          // its address; empty: embedded
	node                *children.Child // nil: embedded
	servers             []*children.Child
	toStore, toDatabase []*passage // of each server, if it can be cut
}

func newCluster(t *testing.T, of layout) *cluster {
	t.Helper()
	dir := shortDir(t)
	c := &cluster{installation: &installation{T: t, data: filepath.Join(dir, "data")}, database: pgtest.NewServer(t)}
	c.pool = c.database.Pool()
	if !of.embedded {
		c.node, c.store = children.StartNode(t, dir)
	}
	for i := range max(of.servers, len(of.roles)) {
		store, database, env := c.store, c.database.URL(), slices.Clone(of.env)
		if of.severable {
			toStore, throughIt := newPassageToStore(t, store)
			toDatabase, through := newPassageToPostgres(t, database)
			c.toStore, c.toDatabase = append(c.toStore, toStore), append(c.toDatabase, toDatabase)
			store, database = throughIt, through
		}
		if of.roles != nil {
			env = append(env, "CHILD_ROLES="+of.roles[i])
		}
		server, api, admin := children.StartServer(t, c.data, store, database, env...)
		c.servers, c.apis, c.admins = append(c.servers, server), append(c.apis, api), append(c.admins, admin)
		c.eventually("the credentials are there", c.credentials)
	}
	for i := range c.servers {
		c.eventually("each server is ready", func() bool { return c.ready(i) })
	}
	return c
}

// count is the result of a query; -1 if there is none yet.
func (c *cluster) count(question string) int {
	n := -1
	_ = c.pool.QueryRow(c.Context(), question).Scan(&n)
	return n
}

// runs is the number of the server that runs a consumer; -1 if none does.
func (c *cluster) runs(consumer string) int {
	statuses, _ := projections.Statuses(c.Context(), c.pool)
	return slices.IndexFunc(c.servers, func(server *children.Child) bool {
		return slices.ContainsFunc(statuses, func(s projections.Status) bool {
			return s.Name == consumer && strings.HasSuffix(s.Process, ":"+strconv.Itoa(server.PID()))
		})
	})
}

// holder is the number of the server that runs the dispatcher, the first if none does.
func (c *cluster) holder() int { return max(0, c.runs(dispatching.Name)) }

// destinations makes some, by all servers in turn, and counts the answers by status.
func (c *cluster) destinations(n int) map[int]int {
	var mu sync.Mutex
	var making sync.WaitGroup
	statuses := map[int]int{}
	for i := range n {
		making.Go(func() {
			status := c.ask(http.MethodPut, fmt.Sprintf("%s%sd%d", c.apis[i%len(c.apis)], destinations, i),
				map[string]any{"name": "d", "config": map[string]any{"url": nowhere}}, nil)
			mu.Lock()
			defer mu.Unlock()
			statuses[status]++
		})
	}
	making.Wait()
	return statuses
}

// verifyReadModels compares every read model, and the states of the process managers that have run, with the log.
func verifyReadModels(t testing.TB, client *adminclient.Client) {
	t.Helper()
	listed := must.Get(client.Projections(t.Context()))(t)
	for _, name := range app.Compared() {
		isProcess := !slices.ContainsFunc(app.ReadModels(), func(m projections.ReadModel) bool { return m.Name == name })
		ran := slices.ContainsFunc(listed, func(p adminapi.Projection) bool {
			return p.Name == name && !p.UpdatedAt.IsZero()
		})
		if isProcess && !ran { // no process has its role
			continue
		}
		if err := client.Verify(t.Context(), name, 100); err != nil {
			t.Fatalf("verify %s: %v", name, err)
		}
		var found adminapi.Projection
		poll(t, patience, name+" is compared with the log", func() bool {
			list, err := client.Projections(t.Context())
			for _, p := range list {
				if p.Name == name {
					found = p
				}
			}
			return err == nil && (found.Verifying == nil || found.Verifying.Error != "")
		})
		switch v := found.Verified; {
		case v == nil || found.Verifying != nil:
			t.Errorf("%s is not verified: %+v", name, found.Verifying)
		case v.Differing > 0:
			t.Errorf("%s differs from the log in %d of %d rows: %v", name, v.Differing, v.Rows, v.Differences)
		default:
			t.Logf("%s agrees with the log: %d rows", name, v.Rows)
		}
	}
}
