//go:build nightly

package bench

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// receiver takes webhooks over TLS, verifies each signature, and counts which are lost or come twice.
type receiver struct {
	testing.TB
	url string

	opened atomic.Int64 // connections

	mu        sync.Mutex
	verifiers map[string]*standardwebhooks.Webhook // by path
	seen      map[string]int                       // deliveries by webhook-id
	sent      map[string]time.Time                 // by event
	took      []time.Duration
	invalid   int
}

func (r *rig) newReceiver() *receiver {
	c := &receiver{
		TB:        r.TB,
		verifiers: map[string]*standardwebhooks.Webhook{},
		seen:      map[string]int{},
		sent:      map[string]time.Time{},
	}
	c.url = r.listen(c, func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.opened.Add(1)
		}
	})
	return c
}

// listen serves a handler over TLS that the server trusts.
func (r *rig) listen(handler http.Handler, conns func(net.Conn, http.ConnState)) (url string) {
	r.Helper()
	certificate := must.Get(r.authority.Certificate())(r)
	server := httptest.NewUnstartedServer(handler)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.Config.ConnState = conns
	server.StartTLS()
	r.Cleanup(server.Close)
	r.Cleanup(server.CloseClientConnections) // it comes first: cleanups run backwards
	return server.URL
}

func (c *receiver) trust(destination int, secret string) {
	c.Helper()
	verifier := must.Get(standardwebhooks.NewWebhook(secret))(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verifiers["/"+strconv.Itoa(destination)] = verifier
}

// expect times the way of an event from now.
func (c *receiver) expect(event uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[event.String()] = time.Now()
}

// ServeHTTP answers late below /late/, after a second below /slow/, and else at once.
func (c *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		return // the probe
	}
	now := time.Now()
	body, err := io.ReadAll(request.Body) // from then on it is seen when the connection ends
	if err != nil {
		return
	}
	wait := time.Duration(0)
	switch {
	case strings.HasPrefix(request.URL.Path, "/late/"):
		wait = 29 * time.Second
	case strings.HasPrefix(request.URL.Path, "/slow/"):
		wait = time.Second
	}
	select {
	case <-time.After(wait):
	case <-request.Context().Done():
	}
	c.mu.Lock()
	verifier := c.verifiers[request.URL.Path]
	c.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
	if verifier == nil {
		return // of a crowd, in which only time is of interest
	}
	valid := verifier.Verify(body, request.Header) == nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if !valid {
		c.invalid++
	}
	c.seen[request.Header.Get("webhook-id")]++
	if sent, expected := c.sent[eventOf(body)]; expected {
		c.took = append(c.took, now.Sub(sent))
	}
}

// eventOf is the id of the event in a webhook, which begins with {"id":"<uuid>".
func eventOf(body []byte) string { return string(body[7:43]) }

// await waits until n different deliveries have come.
func (c *receiver) await(n int) {
	for came := 0; came < n; time.Sleep(time.Millisecond) {
		c.mu.Lock()
		came = len(c.seen)
		c.mu.Unlock()
	}
}

// forgetLatencies makes the latencies so far no part of the figures.
func (c *receiver) forgetLatencies() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = c.took[:0]
}

// reportLatencies reports how long events took from publishing to receipt, and returns the 99th percentile.
func (c *receiver) reportLatencies(prefix string) (p99 time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return reportQuantiles(c.TB, prefix, c.took)
}

// reportCame fails the benchmark unless n deliveries came, each with a good signature.
func (c *receiver) reportCame(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	duplicates := 0
	for _, times := range c.seen {
		duplicates += times - 1
	}
	assert.True(c, len(c.seen) == n && c.invalid == 0,
		"%d of %d deliveries came, %d with a bad signature", len(c.seen), n, c.invalid)
	report(c.TB, "duplicates", float64(duplicates))
	report(c.TB, "connections", float64(c.opened.Load()))
}

// reportQuantiles reports the median, the 99th percentile, which it returns, and the longest.
func reportQuantiles(b testing.TB, prefix string, took []time.Duration) (p99 time.Duration) {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	p99 = took[len(took)*99/100]
	report(b, prefix+"p50-ms", milliseconds(took[len(took)/2]))
	report(b, prefix+"p99-ms", milliseconds(p99))
	report(b, prefix+"max-ms", milliseconds(took[len(took)-1]))
	return p99
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// reportOfAlone reports the 99th percentile as a multiple of its value alone; within 2 is fair.
func reportOfAlone(b testing.TB, prefix string, p99, alone time.Duration) {
	if alone > 0 {
		reportAtMost(b, prefix+"p99-of-alone", float64(p99)/float64(alone), 2)
	}
}
