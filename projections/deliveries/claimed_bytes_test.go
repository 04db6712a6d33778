package deliveries_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

// publishLarge publishes the n-th event with so much data.
func (h history) publishLarge(n, size int) {
	projecttest.Stream(h.Log, publication.Aggregate, event(n), noon)(publication.Published{
		Organization: org,
		Type:         "news.item.added",
		Source:       "https://example.org/feeds/city",
		Time:         noon,
		FeedType:     "news",
		FeedID:       feed,
		Data:         fmt.Appendf(nil, `"%s"`, strings.Repeat("x", size-2)),
	})
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
		"enough":                    {bytes: events * size, want: 2 * events, claims: 1},
		"for two events and a half": {bytes: 5 * size / 2, want: 4, claims: 3},
		"for less than one event":   {bytes: size / 2, want: 2, claims: 6},
		"for two of the organization": {
			bytes:  events * size,
			of:     map[uuid.UUID]int{org: 2 * size},
			want:   4,
			claims: 3,
		},
		"much of another one": {
			bytes:  2 * size,
			of:     map[uuid.UUID]int{uuid.New(): size / 2},
			want:   4,
			claims: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			h.destination(alpha)
			h.destination(beta)
			for n := range events {
				h.publishLarge(n, size)
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
				claimed, err := claimOnce(t.Context(), h.Database, me, ask, noon.Add(time.Minute))
				if err != nil {
					t.Fatal(err)
				}
				large := 0
				for _, c := range claimed {
					if got[c.ID] {
						t.Fatalf("%s was claimed twice", c.ID)
					}
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
			if len(got) != 2*events+2 || claims != tt.claims {
				t.Errorf("%d claims took %d, want %d to take all %d", claims, len(got), tt.claims, 2*events+2)
			}
		})
	}
}
