package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/eventstore/panics"
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
		if err := <-failed; !errors.Is(err, errOver) || runs != 2 {
			t.Errorf("failed with %v after %d runs", err, runs)
		}
		synctest.Wait()
		stop(s)
		if keeps != 2 {
			t.Errorf("the kept part was started %d times", keeps)
		}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(scraped(readPanics), scraped(func(context.Context, scrape) { panic("planted") }))
	for _, part := range []string{"test of a run part", "test of a kept part"} {
		if panics.Counts()[part] != 1 {
			t.Errorf("%s: counted %d", part, panics.Counts()[part])
		}
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "carillon_panics_total" {
		t.Errorf("gathered %v, %v", families, err)
	}
}
