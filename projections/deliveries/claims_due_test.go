package deliveries_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
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
	assert.Equal(t, next(noon), 0, "empty: next due after")
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
	assert.Equal(t, next(noon), 5*time.Minute, "next due after … want the 5m of the enabled destination")
	h.happens(0, beta, gaveUp(2, beta, noon), replayWanted(beta, uuid.New(), noon.Add(3*time.Minute)))
	h.Project()
	assert.Equal(t, next(noon), 3*time.Minute, "next due after … want the 3m of the replay")
	assert.Equal(t, next(noon.Add(3*time.Minute)), 5*time.Minute, "next due after … want what comes later than now")
	h.schedule(1, noon, to(alpha))
	h.Project()
	must.Equal(t, len(h.claim(me, 10, 10, noon)), 1, "claimed")
	assert.Equal(t, next(noon), lease, "next due after … want the end of the lease")
}

// However many replays wait, scheduled deliveries get their part of each claim, and if only one kind is due it gets the
// whole.
func TestReplaysLeaveRoomForWhatIsDue(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ replays, due, wantReplays, wantDue int }{
		"both in plenty": {10, 10, 4, 4},
		"few replays":    {2, 10, 2, 6},
		"little is due":  {10, 2, 6, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			beta := uuid.New()
			h.destination(alpha)
			h.destination(beta)
			for n := range tt.replays {
				h.due(n, to(alpha))
				h.happens(n, alpha, succeeded(1, alpha, noon))
				h.happens(n, alpha, delivery.ReplayRequested{Replay: uuid.New(), At: noon})
			}
			for n := range tt.due {
				h.due(100+n, to(beta))
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

// A claim takes events as far as there is memory for their data, each counted once, of each destination as many, and
// small ones all the same. The rest can be claimed at once.
func TestClaim_memoryLimit(t *testing.T) {
	t.Parallel()
	const size, events = 100_000, 6
	for name, tt := range map[string]struct {
		bytes  int
		of     map[uuid.UUID]int
		want   int // deliveries of large events
		claims int // until all were claimed
	}{
		"enough":                      {events * size, nil, 2 * events, 1},
		"for two events and a half":   {5 * size / 2, nil, 4, 3},
		"for less than one event":     {size / 2, nil, 2, 6},
		"for two of the organization": {events * size, map[uuid.UUID]int{org: 2 * size}, 4, 3},
		"much of another one":         {2 * size, map[uuid.UUID]int{uuid.New(): size / 2}, 4, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			h.destination(alpha)
			h.destination(beta)
			for n := range events {
				h.publishData(n, fmt.Appendf(nil, `"%s"`, strings.Repeat("x", size-2)))
				h.schedule(n, noon.Add(time.Duration(n)*time.Millisecond), to(alpha), to(beta))
			}
			h.publish(events)
			h.schedule(events, noon.Add(time.Second), to(alpha), to(beta))
			h.Project()
			ask := deliveries.Ask{
				PerDestination: 50,
				Limit:          50,
				Bytes:          tt.bytes,
				BytesOf:        tt.of,
			}
			got, claims := map[uuid.UUID]bool{}, 0
			for ; len(got) < 2*events+2 && claims < 10; claims++ {
				claimed := must.Get(claimOnce(t.Context(), h.Database, me, ask, noon.Add(time.Minute)))(t)
				large := 0
				for _, c := range claimed {
					must.True(t, !got[c.ID], "%s was claimed twice", c.ID)
					got[c.ID] = true
					switch len(c.Event.Data) {
					case size:
						large++
					case len(`{"title":"No. 6","n":1.50}`):
					default:
						t.Fatalf("an event has %d bytes of data", len(c.Event.Data))
					}
				}
				if claims == 0 && (large != tt.want || len(claimed) != large+2) {
					t.Errorf("claimed %d, of which %d are large, want %d and the two small ones", len(claimed), large, tt.want)
				}
			}
			assert.True(t, len(got) == 2*events+2 && claims == tt.claims,
				"%d claims took %d, want %d to take all %d", claims, len(got), tt.claims, 2*events+2)
		})
	}
}
