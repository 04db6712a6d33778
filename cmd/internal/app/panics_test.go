package app

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
)

// All work of a part is started again after a panic, which ends neither the process nor other work. Its error still
// ends the process.
func TestPartSurvivesPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s := (&process{failed: failed}).newPart()
		errOver := errors.New("over")
		runs, keeps := 0, 0
		s.run("test of a run part", func(context.Context) error {
			if runs++; runs == 1 {
				panic("planted")
			}
			return errOver
		})
		s.keep("test of a kept part", func(ctx context.Context) {
			if keeps++; keeps == 1 {
				panic("planted")
			}
			<-ctx.Done()
		})
		err := <-failed
		assert.True(t, errors.Is(err, errOver) && runs == 2, "failed with %v after %d runs", err, runs)
		synctest.Wait()
		stop(s)
		assert.Equal(t, keeps, 2, "the kept part was started … times")
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(scraped(readPanics), scraped(func(context.Context, scrape) { panic("planted") }))
	for _, part := range []string{"test of a run part", "test of a kept part"} {
		assert.Equal(t, panics.Counts()[part], 1, "%s: counted", part)
	}
	families, err := registry.Gather()
	assert.True(t, err == nil && len(families) == 1 && families[0].GetName() == "carillon_panics_total",
		"gathered %v, %v", families, err)
}

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
			assert.Equal(t, asked.Load()-before, 2, "200 made the stores be asked … times")
			time.Sleep(2 * time.Second) // a later one gets a new answer
		}
	})
}
