//go:build nightly

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/dev"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
	"carillon/projections/postgres"
)

// organization is the one for developers.
var organization = uuid.MustParse("0d000000-0000-4000-8000-000000000001")

// rig is a measured process with its Postgres, the callers of its APIs, and a receiver of webhooks.
type rig struct {
	testing.TB
	*process

	dir        string
	env        []string // of the process
	key, token string   // of the organization and of an operator
	client     *http.Client
	pool       *pgxpool.Pool
	postgres   pgtest.Usage
	authority  *dev.Authority
	receiver   *receiver
}

// prepare makes a rig without a process.
func prepare(b testing.TB, env ...string) *rig {
	b.Helper()
	dir := must.Get(os.MkdirTemp("", "carillon-bench"))(b)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	must.OK(b, os.Chmod(dir, 0o711)) // root's Postgres runs as another user, which passes through
	r := &rig{
		TB:     b,
		dir:    dir,
		env:    env,
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
	}
	b.Cleanup(r.client.CloseIdleConnections)
	r.authority = must.Get(dev.EnsureAuthority(dir))(b)
	r.receiver = r.newReceiver()
	return r
}

// newRig starts a server with some destinations that want everything.
func newRig(b testing.TB, destinations int, env ...string) *rig {
	b.Helper()
	r := prepare(b, env...)
	r.startServer()
	for i := range destinations {
		r.receiver.trust(i, r.destination(r.key, fmt.Sprint(r.receiver.url, "/", i), "*").Secrets[0].Secret)
	}
	return r
}

// database starts a Postgres with the settings of a server's own.
func (r *rig) database() (url string) {
	r.Helper()
	config := postgres.Config{
		Dir:        filepath.Join(r.dir, "postgres"),
		Logger:     slog.New(slog.DiscardHandler),
		Disposable: true,
	}
	server := must.Get(postgres.Start(r.Context(), config))(r)
	r.Cleanup(func() { _ = server.Stop(context.Background()) })
	return server.URL()
}

// send makes a request and returns the answer if it says success.
func (r *rig) send(method, url, token, media string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(r.Context(), method, "http://"+url, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", media)
	response, err := r.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %d %s", method, url, response.StatusCode, answer)
	}
	return answer, err
}

// call makes a request and decodes the data of its answer into into, which may be nil. A nil body is none.
func (r *rig) call(method, url, token string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		raw = nil
	}
	answer, err := r.send(method, url, token, "application/json", bytes.NewReader(raw))
	if err != nil || into == nil {
		return err
	}
	envelope := struct{ Data any }{into}
	return json.Unmarshal(answer, &envelope)
}

// post calls the API as the organization.
func (r *rig) post(path string, body, into any) error {
	return r.call(http.MethodPost, r.api+path, r.key, body, into)
}

// created is the common part of the answers to creations.
type created struct {
	ID, Key string
	Secrets []struct{ Secret string }
}

// look requests routes of the admin API without a token.
func (r *rig) look(path string) (status int, body string) {
	response, err := r.client.Get("http://" + r.admin + path)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// destination makes one that wants events of some types.
func (r *rig) destination(key, url, types string) (d created) {
	r.Helper()
	err := r.call(http.MethodPost, r.api+"/events/destinations", key, map[string]any{
		"name":   "bench",
		"config": map[string]any{"url": url},
	}, &d)
	if err == nil {
		body := map[string]any{"eventTypes": []string{types}, "scopeKind": "all"}
		err = r.call(http.MethodPost, r.api+"/events/destinations/"+d.ID+"/subscriptions", key, body, nil)
	}
	must.OK(r, err)
	return d
}

// tenant makes another organization.
func (r *rig) tenant() (id uuid.UUID, key string) {
	r.Helper()
	var made created
	err := r.call(http.MethodPost, r.admin+"/admin/organizations", r.token, map[string]any{"name": "Other"}, &made)
	if err == nil {
		id = uuid.MustParse(made.ID)
		err = r.call(http.MethodPost, r.admin+"/admin/organizations/"+made.ID+"/keys", r.token, map[string]any{}, &made)
	}
	must.OK(r, err)
	return id, made.Key
}

var payload = `{"id":"7","title":"Storm over the bay","description":"` + strings.Repeat("wind and rain ", 30) + `"}`

// event is one as POST /admin/events takes it.
func event(id, organization uuid.UUID) []byte {
	return fmt.Appendf(nil, `{"id":"%s","type":"news.item.added","source":"/bench","subject":"item/%[1]s",`+
		`"organizationId":"%[2]s","data":%[3]s}`,
		id, organization, payload)
}

// events are n of them for one request.
func events(n int, organization uuid.UUID) *bytes.Buffer {
	var body bytes.Buffer
	for range n {
		body.Write(event(uuid.New(), organization))
		body.WriteByte('\n')
	}
	return &body
}

// publish sends events, as one or as NDJSON.
func (r *rig) publish(media string, body io.Reader) error {
	_, err := r.send(http.MethodPost, r.admin+"/admin/events", r.token, media, body)
	return err
}

const (
	asJSON   = "application/json"
	asNDJSON = "application/x-ndjson"
)

// publishOne publishes an event whose way to the receiver is timed.
func (r *rig) publishOne() {
	id := uuid.New()
	r.receiver.expect(id)
	assert.OK(r, r.publish(asJSON, bytes.NewReader(event(id, organization))))
}

// steady publishes at a rate, open loop: a slow answer delays no later event.
func (r *rig) steady(rate, n int) {
	var publishing sync.WaitGroup
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		publishing.Go(r.publishOne)
	}
	publishing.Wait()
}

// flood publishes by 64 connections, each event by a request.
func (r *rig) flood(n int) {
	left := make(chan struct{}, n)
	for range n {
		left <- struct{}{}
	}
	close(left)
	var publishing sync.WaitGroup
	for range 64 {
		publishing.Go(func() {
			for range left {
				r.publishOne()
			}
		})
	}
	publishing.Wait()
}

// count returns the number that a query yields.
func (r *rig) count(query string, args ...any) (n int) {
	r.Helper()
	must.OK(r, r.pool.QueryRow(context.Background(), query, args...).Scan(&n))
	return n
}

// succeeded waits until n deliveries are recorded as succeeded, unless an event was refused that they were to come from.
func (r *rig) succeeded(n int) {
	r.Helper()
	for r.count("SELECT coalesce(sum(succeeded), 0) FROM deliveries.tallies") < n {
		must.True(r, !r.Failed(), "not all events were published")
		time.Sleep(50 * time.Millisecond)
	}
}
