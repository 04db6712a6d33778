//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestDebounce_sendsTheNewest(t *testing.T) {
	p := shared(t)
	var arrived <-chan received
	var older []string
	var newest, other string
	// On a busy machine a window may close before all of its events are dispatched: then a wider one is tried.
	for window, inTime := 1, false; !inTime; window *= 2 {
		if window > 32 {
			t.Fatal("nothing was superseded in time")
		}
		var url string
		url, arrived = p.endpoint(statuses(200))
		destination := p.connect(fmt.Sprintf("crm-%d", window), url, window)
		closes := time.Now().Add(time.Duration(window) * time.Second)
		older = []string{deliveryOf(p.announce("storm", uuid.Nil), destination), deliveryOf(p.announce("storm", uuid.Nil),
			destination)}
		newest = deliveryOf(p.announce("storm", uuid.Nil), destination)
		other = deliveryOf(p.announce("flood", uuid.Nil), destination)
		for _, id := range older {
			p.delivery(id, "is over", func(d map[string]any) bool { return d["completedAt"] != nil })
		}
		inTime = time.Now().Before(closes)
	}
	came := map[string]bool{
		p.await(arrived).header.Get("webhook-id"): true,
		p.await(arrived).header.Get("webhook-id"): true,
	}
	if !came[newest] || !came[other] {
		t.Errorf("%v came, want the newest of each subject", came)
	}
	p.settled(newest, "succeeded")
	p.settled(other, "succeeded")
	for _, id := range older {
		d := p.settled(id, "superseded")
		if d["attemptCount"] != 0.0 || d["nextAttemptAt"] != nil || d["completedAt"] == nil || d["lastAttempt"] != nil {
			t.Errorf("superseded: %v", d)
		}
		p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	}
	if len(arrived) > 0 {
		t.Error("more than the newest came")
	}
}
