package deliveries_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/projections/deliveries"
)

// A clock was a day ahead, and was put back: deliveries planned meanwhile wait as long as their schedule says, not a
// day, and leases and pauses end when they would have. Deliveries planned by a right clock are not changed.
func TestClockAheadIsBroughtBack(t *testing.T) {
	t.Parallel()
	const ahead = 24 * time.Hour
	h := newHistory(t)
	h.destination(alpha)
	wrong := noon.Add(ahead)
	window := to(alpha)
	window.NotBefore = wrong.Add(time.Minute)
	leased := to(alpha)
	leased.Worker, leased.LeasedUntil = me, wrong.Add(lease)
	for n, d := range []dispatch.Scheduled{to(alpha), to(alpha), window, leased} {
		h.publish(n + 1)
		at := wrong
		if n == 0 {
			at = noon
		}
		h.schedule(n+1, at, d)
	}
	h.happens(1, alpha, failed(1, alpha, noon, noon.Add(10*time.Hour)))
	h.happens(2, alpha, failed(1, alpha, wrong, wrong.Add(5*time.Minute)))
	h.publish(5)
	h.schedule(5, noon, to(alpha))
	h.happens(5, alpha, gaveUp(1, alpha, noon),
		replayWanted(alpha, uuid.New(), wrong))
	h.Project()
	due := func(n int) (due, available time.Time) {
		t.Helper()
		err := h.Database.QueryRow(t.Context(), "SELECT due_at, available_at FROM deliveries.due WHERE id = $1",
			dispatch.DeliveryID(event(n), alpha)).Scan(&due, &available)
		if err != nil {
			t.Fatal(err)
		}
		return due, available
	}
	bring := func(want int64) {
		t.Helper()
		if n, err := deliveries.BringBack(t.Context(), h.Database, noon, lease); err != nil || n != want {
			t.Fatalf("%d were brought back (%v), want %d", n, err, want)
		}
	}
	bring(4)
	bring(0)
	for n, want := range map[int]struct{ due, available time.Duration }{
		1: {10 * time.Hour, 10 * time.Hour}, 2: {5 * time.Minute, 5 * time.Minute}, 3: {time.Minute, time.Minute},
		4: {0, lease}, 5: {0, 0},
	} {
		if due, available := due(n); !due.Equal(noon.Add(want.due)) || !available.Equal(noon.Add(want.available)) {
			t.Errorf("%d is due at %s and available at %s, want noon and %+v", n, due.UTC(), available.UTC(), want)
		}
	}
	// A pause that was made while the clock was ahead.
	const pause = "UPDATE deliveries.due SET available_at = $2 WHERE id = $1"
	if _, err := h.Database.Exec(t.Context(), pause, dispatch.DeliveryID(event(1), alpha), wrong); err != nil {
		t.Fatal(err)
	}
	bring(1)
	if due, available := due(1); !available.Equal(due) {
		t.Errorf("available at %s, due at %s", available, due)
	}
}
