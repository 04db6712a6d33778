package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command"
	"carillon/command/webhook"
)

// The benchmarks of delivery run a whole server on embedded defaults with full durability (the node on disk, a private
// Postgres with fsync) in this process, a load generator that publishes through the same command as the admin API, and
// a TLS receiver that verifies each signature and counts what is lost or comes twice.

// rig is a server under load.
type rig struct {
	*testing.B
	app      *app.App
	org      uuid.UUID
	receiver *counter
	key      string // of org

	trusted *x509.CertPool   // what the receiver's certificate is signed by
	secrets []webhook.Secret // of each destination
}

var organization = uuid.MustParse("0d000000-0000-4000-8000-000000000001")

var everything = subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "all"}

func newRig(b *testing.B, destinations int) *rig {
	b.Helper()
	return newRigOn(b, destinations, "")
}

// benchDir is a directory that root's Postgres, which runs as another user, can pass through.
func benchDir(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "carillon-bench")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // see above
		b.Fatal(err)
	}
	return dir
}

// newRigOn is newRig on an event store of its own; on the embedded node where the URL is empty.
func newRigOn(b *testing.B, destinations int, eventStore string) *rig {
	b.Helper()
	app.TuneMemory()
	dir := benchDir(b)
	cfg := config.Config{
		HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: dir, Dev: true, EventStoreURL: config.Address(eventStore),
		Roles:           []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver},
		DeliveryTimeout: 30 * time.Second, DeliveryRetrySchedule: []time.Duration{5 * time.Second}, AutoDisableAfter: 100, AutoDisableMinStreak: time.Hour,
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.Open(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		cancel()
		b.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			b.Errorf("run: %v", err)
		}
		a.Close()
	})
	if _, err := a.DevelopmentKey(ctx); err != nil {
		b.Fatal(err)
	}
	r := &rig{B: b, app: a, org: organization}
	r.subscribe(dir, destinations)
	return r
}

func (r *rig) subscribe(dir string, destinations int) {
	r.Helper()
	authority, err := dev.EnsureAuthority(dir)
	if err != nil {
		r.Fatal(err)
	}
	r.receiver, r.trusted = newCounter(r.B, authority), authority.Trust()
	key, err := dev.ReadKey(dir)
	if err != nil {
		r.Fatal(err)
	}
	r.key = key
	for i := range destinations {
		url := fmt.Sprintf("%s/%d", r.receiver.url, i)
		d, err := post(r.app.APIAddr().String(), key, "/events/destinations", map[string]any{"name": "bench", "config": map[string]any{"url": url}})
		if err != nil {
			r.Fatal(err)
		}
		if err := r.receiver.trust(i, d.Secrets[0].Secret); err != nil {
			r.Fatal(err)
		}
		secret, err := webhook.ParseSecret(d.Secrets[0].Secret)
		if err != nil {
			r.Fatal(err)
		}
		r.secrets = append(r.secrets, secret)
		_, err = post(r.app.APIAddr().String(), key, "/events/destinations/"+d.ID+"/subscriptions", map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"})
		if err != nil {
			r.Fatal(err)
		}
	}
}

// made is what the answers to creations have in common.
type made struct {
	ID      string `json:"id"`
	Secrets []struct {
		Secret string `json:"secret"`
	} `json:"secrets"`
}

func post(api, key, path string, body any) (d made, err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return d, err
	}
	request, err := http.NewRequest(http.MethodPost, "http://"+api+path, bytes.NewReader(raw))
	if err != nil {
		return d, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return d, err
	}
	defer func() { _ = response.Body.Close() }()
	var envelope struct {
		Success bool `json:"success"`
		Data    made `json:"data"`
	}
	if err := json.UnmarshalRead(response.Body, &envelope); err != nil || !envelope.Success {
		return d, fmt.Errorf("%s: %d, %w", path, response.StatusCode, err)
	}
	return envelope.Data, nil
}

var payload = []byte(`{"id":"7","title":"Storm over the bay","description":"` + string(slices.Repeat([]byte("wind and rain "), 30)) + `"}`)

func (r *rig) publish(ctx context.Context, id uuid.UUID) error { return r.publishTo(ctx, r.org, id) }

func (r *rig) publishTo(ctx context.Context, organization, id uuid.UUID) error {
	_, _, err := r.app.Commands.Publish(ctx, command.Caller{Actor: "operator", RequestID: id}, command.Publish{
		ID: id, Type: "news.item.added", Source: "/bench", Subject: "item/7", Organization: organization, Data: payload,
	})
	return err
}

// recorded waits until the read model shows n deliveries as succeeded.
func (r *rig) recorded(n int) {
	r.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		var succeeded int
		err := r.app.Queries.Pool.QueryRow(context.Background(), "SELECT coalesce(sum(succeeded), 0) FROM deliveries.tallies").Scan(&succeeded)
		if err != nil {
			r.Fatal(err)
		}
		if succeeded >= n {
			return
		}
		time.Sleep(20 * time.Millisecond) // the benchmark's own poll, no test waits here
	}
	r.Fatalf("not all of %d deliveries were recorded", n)
}

// BenchmarkDelivery: published event → delivery recorded as succeeded, as fast as it goes.
func BenchmarkDelivery(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			r := newRig(b, destinations)
			publishers := 64
			b.ResetTimer()
			started, used := time.Now(), r.measure()
			var next atomic.Int64
			var group sync.WaitGroup
			for range publishers {
				group.Go(func() {
					for next.Add(1) <= int64(b.N) {
						id := uuid.New()
						r.receiver.expect(id)
						if err := r.publish(b.Context(), id); err != nil {
							b.Errorf("publish: %v", err)
							return
						}
					}
				})
			}
			group.Wait()
			published := time.Since(started)
			r.recorded(b.N * destinations)
			took := time.Since(started)
			b.StopTimer()
			used.report(b.N * destinations)
			b.ReportMetric(float64(b.N)/published.Seconds(), "published/s")
			delivered := float64(b.N*destinations) / took.Seconds()
			b.ReportMetric(delivered, "delivered/s")
			if bare := bareRate[destinations]; bare > 0 {
				b.ReportMetric(100*delivered/bare, "%-of-bare")
			}
			r.receiver.reportLatencies()
			r.receiver.report(b.N * destinations)
		})
	}
}

// BenchmarkLatency: from publish to receipt at a steady rate, open loop: a slow answer delays no later event. It runs for
// at most 15 s.
func BenchmarkLatency(b *testing.B) {
	for _, rate := range []int{50, 200, 600} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) { newRig(b, 1).steady(rate) })
	}
}

// steady publishes at a rate, and reports how long each event took.
func (r *rig) steady(rate int) {
	r.Helper()
	n := min(r.N, 15*rate)
	var group sync.WaitGroup
	ticker := time.NewTicker(time.Second / time.Duration(rate))
	defer ticker.Stop()
	r.ResetTimer()
	used := r.measure()
	for range n {
		<-ticker.C
		id := uuid.New()
		r.receiver.expect(id)
		group.Go(func() {
			if err := r.publish(r.Context(), id); err != nil {
				r.Errorf("publish: %v", err)
			}
		})
	}
	group.Wait()
	r.recorded(n)
	r.StopTimer()
	used.report(n)
	r.receiver.reportLatencies()
	r.receiver.report(n)
}

// counter is a TLS receiver that verifies and counts.
type counter struct {
	*testing.B
	url       string
	mu        sync.Mutex
	verifiers map[string]*standardwebhooks.Webhook
	seen      map[string]int // deliveries by webhook-id
	sent      map[string]time.Time
	took      []time.Duration
	invalid   int
	hang      chan struct{} // where made, the path /0 does not answer until it is closed
	opened    atomic.Int64  // connections
	late      atomic.Int64  // requests to /late/ that wait for their answer, which comes after 29 s
	quick     atomic.Bool   // they are answered at once
}

func newCounter(b *testing.B, authority *dev.Authority) *counter {
	b.Helper()
	certificate, err := authority.Certificate()
	if err != nil {
		b.Fatal(err)
	}
	c := &counter{B: b, verifiers: map[string]*standardwebhooks.Webhook{}, seen: map[string]int{}, sent: map[string]time.Time{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(c.receive))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.opened.Add(1)
		}
	}
	server.StartTLS()
	b.Cleanup(server.Close)
	b.Cleanup(server.CloseClientConnections) // it comes first: cleanups run backwards
	c.url = server.URL
	return c
}

func (c *counter) trust(destination int, secret string) error {
	verifier, err := standardwebhooks.NewWebhook(secret)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verifiers["/"+strconv.Itoa(destination)] = verifier
	return err
}

func (c *counter) expect(event uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[event.String()] = time.Now()
}

func (c *counter) receive(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		return // the probe
	}
	if c.hang != nil && request.URL.Path == "/0" {
		<-c.hang
		return
	}
	if strings.HasPrefix(request.URL.Path, "/late/") {
		if c.quick.Load() {
			return
		}
		c.late.Add(1)
		defer c.late.Add(-1)
		_, _ = io.Copy(io.Discard, request.Body) // from then on it is seen when the connection ends
		select {
		case <-time.After(29 * time.Second):
		case <-request.Context().Done():
		}
		return
	}
	now := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	if strings.HasPrefix(request.URL.Path, "/slow/") {
		time.Sleep(time.Second)
		return
	}
	w.WriteHeader(http.StatusNoContent)
	c.mu.Lock()
	verifier := c.verifiers[request.URL.Path]
	c.mu.Unlock()
	valid := verifier.Verify(body, request.Header) == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if !valid {
		c.invalid++
	}
	c.seen[request.Header.Get("webhook-id")]++
	if sent, expected := c.sent[string(body[7:43])]; expected { // {"id":"<uuid>"
		c.took = append(c.took, now.Sub(sent))
	}
}

// reportLatencies tells how long events were on their way from publish to receipt, and returns the 99th percentile.
func (c *counter) reportLatencies() (p99 time.Duration) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.took)
	at := func(q float64) time.Duration { return c.took[min(int(q*float64(len(c.took))), len(c.took)-1)] }
	for name, q := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		c.ReportMetric(float64(at(q).Microseconds())/1000, name)
	}
	return at(0.99)
}

// reportOfAlone tells the 99th percentile as a multiple of what it was alone, where that is known. (Within 2 is fair.)
func reportOfAlone(b *testing.B, p99, alone time.Duration) {
	b.Helper()
	if alone > 0 {
		b.ReportMetric(float64(p99)/float64(alone), "p99-of-alone")
	}
}

// report fails the benchmark unless each delivery came, signed.
func (c *counter) report(want int) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	duplicates := 0
	for _, n := range c.seen {
		duplicates += n - 1
	}
	if len(c.seen) != want || c.invalid != 0 {
		c.Errorf("%d of %d deliveries came, %d with a bad signature", len(c.seen), want, c.invalid)
	}
	c.ReportMetric(float64(duplicates), "duplicates")
	c.ReportMetric(float64(c.opened.Load()), "connections")
}
