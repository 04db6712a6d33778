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
