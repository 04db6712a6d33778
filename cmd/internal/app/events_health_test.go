package app_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
)

func TestAutoDisableAndTheWayBack(t *testing.T) {
	p := start(t, func(c *config.Config) { c.AutoDisableAfter, c.AutoDisableMinStreak = 3, 0 })
	url, arrived := p.endpoint(statuses(500, 500, 500, 500, 200))
	destination := p.connect("crm", url, 0)
	started := time.Now()
	failed := p.settled(deliveryOf(p.publish(), destination), "failed")
	disabled := p.status("crm", "auto_disabled")
	if reason, _ := disabled["statusReason"].(string); !strings.Contains(reason, "3 consecutive failed attempts") {
		t.Errorf("statusReason = %v", disabled["statusReason"])
	}
	missed := deliveryOf(p.announce("flood", uuid.Nil), destination)
	window := map[string]any{"since": started.Add(-time.Minute).UTC().Format(time.RFC3339), "until": time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}

	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled"}, http.StatusOK)
	if d := p.status("crm", "disabled"); d["statusReason"] != nil {
		t.Errorf("statusReason = %v, want null once the caller has changed the status", d["statusReason"])
	}
	if n := p.total(destinations + "crm/deliveries"); n != 1 {
		t.Errorf("%v deliveries, want none made while it was not enabled", n)
	}
	enabled := p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "enabled"}, http.StatusOK)
	if enabled["status"] != "enabled" || enabled["statusReason"] != nil {
		t.Errorf("enabled: %v", enabled)
	}
	for _, want := range []float64{1, 0} {
		if made := p.backfill("crm", window, 2); made != want {
			t.Errorf("%v made, want %v", made, want)
		}
	}
	if d := p.settled(missed, "succeeded"); d["attemptCount"] != 2.0 {
		t.Errorf("what was missed: %v", d)
	}
	if d := p.status("crm", "enabled"); d["statusReason"] != nil {
		t.Errorf("one more failure after the way back disabled it again: %v", d)
	}
	for range 5 {
		p.await(arrived)
	}
	if again := p.settled(failed["id"].(string), "failed"); again["attemptCount"] != 3.0 { //nolint:forcetypeassert // a JSON string
		t.Errorf("the failed one was sent again: %v", again)
	}
}

func TestGoneDisablesAtOnce(t *testing.T) {
	p := start(t, nil)
	url, _ := p.endpoint(statuses(410))
	destination := p.connect("crm", url, 0)
	gone := p.settled(deliveryOf(p.publish(), destination), "failed")
	if last := lastAttempt(t, gone); gone["attemptCount"] != 1.0 || last["failureReason"] != "gone" || last["responseStatus"] != 410.0 {
		t.Errorf("delivery = %v", gone)
	}
	if reason, _ := p.status("crm", "auto_disabled")["statusReason"].(string); !strings.Contains(reason, "410") {
		t.Errorf("statusReason = %q", reason)
	}
}

func TestWhatIsPendingWaitsForADisabledDestination(t *testing.T) {
	p := start(t, func(c *config.Config) { c.DeliveryRetrySchedule = []time.Duration{300 * time.Millisecond} })
	answer := make(chan struct{})
	disabledURL, disabled := p.endpoint(func(w http.ResponseWriter, r *http.Request, n int) {
		<-answer
		statuses(500, 200)(w, r, n)
	})
	clockURL, clock := p.endpoint(statuses(500, 200))
	destination := p.connect("crm", disabledURL, 0)
	id := deliveryOf(p.publish(), destination)
	p.await(disabled)
	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled"}, http.StatusOK)
	close(answer) // what was under way ends as it does
	p.attempted(id, 1)
	p.connect("clock", clockURL, 0)
	p.publish() // for the clock alone: its retry comes after that of the other would have come
	p.await(clock)
	p.await(clock)
	if waiting := p.attempted(id, 1); waiting["status"] != "pending" || len(disabled) > 0 {
		t.Errorf("while it is disabled: %v", waiting)
	}
	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "enabled"}, http.StatusOK)
	p.await(disabled)
	p.settled(id, "succeeded")
	if n := p.total(destinations + "crm/deliveries"); n != 1 {
		t.Errorf("%v deliveries, want none made while it was disabled", n)
	}
}
