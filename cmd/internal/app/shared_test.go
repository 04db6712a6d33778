package app

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// TestHostileProbesAskOnce: who asks for readiness and metrics without a token makes the stores be asked once a second.
func TestHostileProbesAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		took := time.Second / 2
		ready := sharedReady(func(ctx context.Context) map[string]error {
			asked.Add(1)
			select {
			case <-time.After(took): // the clock of the bubble
			case <-ctx.Done():
			}
			return map[string]error{"eventStore": ctx.Err()}
		})
		scrape := sharedScrape(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			asked.Add(1)
			time.Sleep(took)
			return nil, nil
		}))
		for range 2 {
			before := asked.Load()
			var all sync.WaitGroup
			for n := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					if n == 0 {
						cancel() // who asks first may go away
					}
					defer cancel()
					if err := ready(ctx)["eventStore"]; err != nil {
						t.Errorf("it passes on the error of a caller that went away: %v", err)
					}
					if _, err := scrape.Gather(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got := asked.Load() - before; got != 2 {
				t.Errorf("200 made the stores be asked %d times, want 2", got)
			}
			time.Sleep(2 * time.Second) // a later one gets a new answer
		}
	})
}
