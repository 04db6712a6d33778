//go:build nightly

package app_test

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
)

// burst is the NDJSON of n events of an organization.
func burst(of uuid.UUID, events int) []byte {
	var body bytes.Buffer
	for range events {
		body.WriteString(event(of) + "\n")
	}
	return body.Bytes()
}

// send posts NDJSON to an admin listener, and reports whether all of it was taken.
func send(t *testing.T, admin, token string, body []byte) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/admin/events", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// While other organizations publish thousands of events in one body each, the events of one arrive as if it were alone,
// but for shared processors: not behind theirs.
func TestBurst_delaysNoOtherOrganization(t *testing.T) {
	const others, each, atLeast = 4, 6000, 15 // behind the bursts 5 to 8 came, each after a second or so
	p := start(t, func(c *config.Config) { c.DeliveryTimeout = time.Minute })
	url, arrived := p.endpoint(statuses(http.StatusOK))
	p.connect("crm", url, 0)
	token := p.adminToken()
	latency := func() time.Duration {
		began := time.Now()
		p.publish()
		p.await(arrived)
		return time.Since(began)
	}
	latency() // opens the connection

	var flooding sync.WaitGroup
	began := time.Now()
	var all []string
	for range others {
		theirs := p.another("Other")
		theirs.connect("quick", theirs.countingEndpoint().url, 0)
		all = append(all, theirs.organization.String())
		flooding.Go(func() {
			if !send(t, "http://"+p.app.AdminAddr().String(), token, burst(theirs.organization, each)) {
				t.Error("a burst was not taken")
			}
		})
	}
	tabled := func() (n int) {
		err := p.app.Queries.Pool.QueryRow(t.Context(),
			"SELECT count(*) FROM deliveries.deliveries WHERE organization = ANY($1::uuid[])", all).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var took []time.Duration
	for n := 0; n < others*each; n = tabled() {
		took = append(took, latency())
	}
	flood := time.Since(began)
	flooding.Wait()
	t.Logf("%d events came beside %d, one after the other, the slowest after %s; all were dispatched after %s", len(took),
		others*each, slices.Max(took), flood)
	if len(took) < atLeast {
		t.Errorf("only %d of a neighbour's events came while a burst was dispatched, which took %s", len(took), flood)
	}
}
