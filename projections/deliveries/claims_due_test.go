package deliveries_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/projections/projecttest"
)

func TestNextDue(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	next := func(now time.Time) time.Duration {
		t.Helper()
		at := nextDue(t, h.Database, now)
		if at.IsZero() {
			return 0
		}
		return at.Sub(noon)
	}
	if got := next(noon); got != 0 {
		t.Errorf("empty: next due after %v, want nothing", got)
	}
	h.destination(alpha)
	h.destination(beta)
	projecttest.Stream(h.Log, destination.Aggregate, beta, noon)(destination.Disabled{At: noon})
	for n := range 3 {
		h.publish(n)
	}
	h.schedule(0, noon, to(alpha), to(beta))
	h.happens(0, alpha, failed(1, alpha, noon, noon.Add(5*time.Minute)))
	h.happens(0, beta, failed(1, beta, noon, noon.Add(2*time.Minute)))
	h.Project()
	if got := next(noon); got != 5*time.Minute {
		t.Errorf("next due after %v, want the 5m of the enabled destination", got)
	}
	h.happens(0, beta, gaveUp(2, beta, noon), replayWanted(beta, uuid.New(), noon.Add(3*time.Minute)))
	h.Project()
	if got := next(noon); got != 3*time.Minute {
		t.Errorf("next due after %v, want the 3m of the replay", got)
	}
	if got := next(noon.Add(3 * time.Minute)); got != 5*time.Minute {
		t.Errorf("next due after %v, want what comes later than now", got)
	}
	h.schedule(1, noon, to(alpha))
	h.Project()
	if n := len(h.claim(me, 10, 10, noon)); n != 1 {
		t.Fatalf("claimed %d, want 1", n)
	}
	if got := next(noon); got != lease {
		t.Errorf("next due after %v, want the end of the lease", got)
	}
}

// However many replays wait, scheduled deliveries get their part of each claim, and if only one kind is due it gets the
// whole.
func TestReplaysLeaveRoomForWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ replays, due, wantReplays, wantDue int }{
		"both in plenty": {
			replays:     10,
			due:         10,
			wantReplays: 4,
			wantDue:     4,
		},
		"few replays": {
			replays:     2,
			due:         10,
			wantReplays: 2,
			wantDue:     6,
		},
		"little is due": {
			replays:     10,
			due:         2,
			wantReplays: 6,
			wantDue:     2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			beta := uuid.New()
			h.destination(alpha)
			h.destination(beta)
			for n := range tt.replays {
				h.publish(n)
				h.schedule(n, noon, to(alpha))
				h.happens(n, alpha, succeeded(1, alpha, noon))
				h.happens(n, alpha, delivery.ReplayRequested{Replay: uuid.New(), At: noon})
			}
			for n := range tt.due {
				h.publish(100 + n)
				h.schedule(100+n, noon, to(beta))
			}
			h.Project()
			claimed := by(h.claim(me, 10, 8, noon.Add(time.Second)))
			if claimed[alpha] != tt.wantReplays || claimed[beta] != tt.wantDue {
				t.Errorf("claimed %d replays and %d that were due, want %d and %d", claimed[alpha], claimed[beta], tt.wantReplays,
					tt.wantDue)
			}
		})
	}
}
