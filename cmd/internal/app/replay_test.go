package app_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/command/delivery"
	"carillon/projections"
)

// A process manager that gets all events again undoes nothing that was decided since: here, the owner's enabling after
// an automatic disabling, while more failures were on record than were needed for it.
func TestProcessManagersThatStartFromNothingUndoNothing(t *testing.T) {
	p := start(t, func(c *config.Config) {
		c.AutoDisableAfter, c.AutoDisableMinStreak = 2, 0
		c.DeliveryRetrySchedule = []time.Duration{time.Second, time.Second, time.Second, time.Second}
	})
	var answering sync.Mutex
	healthy, failures := false, 0
	_, arrived := p.subscribed(func(int) int {
		answering.Lock()
		defer answering.Unlock()
		if healthy {
			return http.StatusOK
		}
		failures++
		return http.StatusServiceUnavailable
	})
	items, ok := p.call(http.MethodGet, "/events/destinations", nil, http.StatusOK)["items"].([]any)
	if !ok || len(items) != 1 {
		t.Fatalf("destinations = %v", items)
	}
	fields, ok := items[0].(map[string]any)
	if !ok {
		t.Fatalf("destination = %v", items[0])
	}
	id, ok := fields["id"].(string)
	if !ok {
		t.Fatalf("id = %v", fields["id"])
	}
	status := func() any { return p.call(http.MethodGet, "/events/destinations/"+id, nil, http.StatusOK)["status"] }
	for range 8 {
		p.publish()
	}
	first := p.await(arrived)
	p.eventually("it is auto-disabled", func() bool { return status() == "auto_disabled" })
	answering.Lock()
	healthy = true // no failure follows
	answering.Unlock()
	p.eventually("all failures are on record", func() bool {
		var recorded int
		if err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM deliveries.attempts WHERE response_status = 503").Scan(&recorded); err != nil {
			t.Fatal(err)
		}
		return recorded == failures
	})
	p.call(http.MethodPatch, "/events/destinations/"+id, map[string]any{"status": "enabled"}, http.StatusOK)
	p.settled(first.header.Get("webhook-id"), "succeeded")

	processes := []string{delivery.DestinationHealthName, delivery.DeletionCascadeName, delivery.DispatcherName}
	p.close()
	p.open()
	before := p.positions()
	if _, err := p.app.Queries.Pool.Exec(t.Context(), "UPDATE carillon.checkpoints SET fingerprint = 'older' WHERE name = ANY($1)", processes); err != nil {
		t.Fatal(err)
	}
	p.close()
	p.open() // an older fingerprint: they begin from nothing
	p.eventually("they have seen all events again", func() bool {
		var waiting int
		err := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM carillon.checkpoints WHERE fingerprint = 'older'").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			return false
		}
		now := p.positions()
		for _, name := range processes {
			if now[name].Position.Before(before[name].Position) {
				return false
			}
		}
		return true
	})
	if got := status(); got != "enabled" {
		t.Errorf("status = %v after all events came again, want enabled", got)
	}
}

func (p *process) positions() map[string]projections.Status {
	p.Helper()
	statuses, err := projections.Statuses(p.Context(), p.app.Queries.Pool)
	if err != nil {
		p.Fatal(err)
	}
	named := map[string]projections.Status{}
	for _, s := range statuses {
		named[s.Name] = s
	}
	return named
}
