package deliveries_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/eventstore"
	"carillon/projections/deliveries"
)

func retryOf(to uuid.UUID, at time.Time) delivery.RetryRequested {
	return delivery.RetryRequested{Organization: org, Destination: to, At: at}
}

// A delivery that waits is claimed once after a retry; the schedule goes on after it.
func TestRetry_isDueOnce(t *testing.T) {
	t.Parallel()
	debounced := to(alpha)
	debounced.NotBefore = noon.Add(time.Hour)
	for name, waiting := range map[string]func(history){
		"for its retry": func(h history) {
			h.schedule(1, noon, to(alpha))
			h.happens(1, alpha, failed(1, alpha, noon, noon.Add(time.Hour)))
		},
		"for the end of its debounce window": func(h history) { h.schedule(1, noon, debounced) },
	} {
		for _, apart := range []bool{false, true} { // in one batch, or after it was stored
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := newHistory(t)
				h.destination(alpha)
				h.publish(1)
				waiting(h)
				if apart {
					h.Project()
				}
				now := noon.Add(time.Minute)
				h.happens(1, alpha, retryOf(alpha, now))
				h.Project()
				claimed := h.claim(me, 10, 10, now)
				if len(claimed) != 1 || !claimed[0].DueAt.Equal(now) || len(h.claim(peer, 10, 10, now)) != 0 {
					t.Fatalf("claimed: %+v, and once more by another worker", claimed)
				}
				h.happens(1, alpha, failed(claimed[0].Attempts+1, alpha, now, now.Add(time.Minute)))
				h.Project()
				if again := h.claim(me, 10, 10, now.Add(time.Second)); len(again) != 0 {
					t.Errorf("claimed before the schedule says: %+v", again)
				}
				if again := h.claim(me, 10, 10, now.Add(time.Minute)); len(again) != 1 {
					t.Errorf("%d are claimed when the schedule says", len(again))
				}
			})
		}
	}
}

// A worker that claimed it meanwhile makes the attempt that was asked for. If it gives it back, the delivery is due.
func TestRetry_leavesLeases(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	held := to(alpha)
	held.Worker, held.LeasedUntil = me, noon.Add(lease)
	for n, d := range []dispatch.Scheduled{held, to(alpha)} {
		h.publish(n + 1)
		h.schedule(n+1, noon, d)
	}
	h.Project()
	if claimed := h.claim(me, 10, 10, noon); len(claimed) != 1 {
		t.Fatalf("claimed %+v, want the one that was not handed over", claimed)
	}
	now := noon.Add(time.Second)
	h.happens(1, alpha, retryOf(alpha, now))
	h.happens(2, alpha, retryOf(alpha, now))
	h.Project()
	if claimed := h.claim(peer, 10, 10, now); len(claimed) != 0 {
		t.Errorf("held deliveries are claimed again: %+v", claimed)
	}
	given := dispatch.DeliveryID(event(2), alpha)
	if err := deliveries.Release(t.Context(), h.Database, me, []uuid.UUID{given}); err != nil {
		t.Fatal(err)
	}
	claimed := h.claim(peer, 10, 10, now)
	if len(claimed) != 1 || claimed[0].ID != given || claimed[0].Revision != eventstore.Revision(0) {
		t.Errorf("given back: %+v", claimed)
	}
}
