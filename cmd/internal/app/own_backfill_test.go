//go:build nightly

package app_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// New events do not wait behind hundreds of events of a backfill to the same destination: they take turns.
func TestFreshDeliveriesPassOwnBackfill(t *testing.T) {
	p := start(t, nil)
	const old, fresh = 600, 10
	p.announceMany(old)

	var (
		mu   sync.Mutex
		came []string // events that were asked for again or published, by delivery, in the order in which they came
		let  = make(chan struct{})
	)
	url := p.serve(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		mu.Lock()
		came = append(came, r.Header.Get("webhook-id"))
		mu.Unlock()
		p.untilClosed(let)
	})
	arrived := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, came...)
	}
	d := p.call(http.MethodPut, destinations+"busy", map[string]any{"name": "busy", "config": map[string]any{"url": url}},
		http.StatusCreated)
	id, _ := d["id"].(string)
	p.call(http.MethodPut, destinations+"busy/subscriptions/news", map[string]any{
		"eventTypes": []string{"news.*"},
		"scopeKind":  "all",
	}, http.StatusCreated)
	window := map[string]any{
		"since": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"until": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	}
	if made := p.backfill("busy", window, old); made != old {
		t.Fatalf("the backfill made %g deliveries", made)
	}
	p.eventually("more than a hundred of the backfill wait in memory", func() bool {
		var held int
		if err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL").
			Scan(&held); err != nil {
			t.Fatal(err)
		}
		return held > 128
	})
	now := map[string]bool{}
	for range fresh {
		delivery := deliveryOf(p.announce(uuid.NewString(), uuid.Nil), id)
		now[delivery] = true
		p.delivery(delivery, "is dispatched", func(map[string]any) bool { return true })
	}
	close(let)
	p.eventually("all have come", func() bool { return len(arrived()) >= old+fresh })
	before := 0
	for _, delivery := range arrived() {
		if now[delivery] {
			delete(now, delivery)
		}
		if len(now) == 0 {
			break
		}
		before++
	}
	if before > 128 {
		t.Errorf("the last of %d that were published came after %d others", fresh, before)
	}
}
