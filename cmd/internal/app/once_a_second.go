package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	sharedFor   = time.Second // an answer holds for the caller without a token
	readyBudget = 3 * time.Second
)

// shared returns the same answer to all callers within a moment, so that the stores are asked no more often than that,
// however many ask. Of those who come at once one asks, and the others wait.
type shared[T any] struct {
	turn chan struct{} // held by who asks
	at   time.Time
	last T
}

func newShared[T any]() *shared[T] { return &shared[T]{turn: make(chan struct{}, 1)} }

func (s *shared[T]) get(find func() T) T {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.at.IsZero() || time.Since(s.at) >= sharedFor {
		s.last = find()
		s.at = time.Now()
	}
	return s.last
}

// sharedReady is a check of readiness that many may ask for at once.
func sharedReady(ready func(context.Context) map[string]error) func(context.Context) map[string]error {
	answers := newShared[map[string]error]()
	return func(ctx context.Context) map[string]error {
		return answers.get(func() map[string]error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyBudget) // others wait for it, too
			defer cancel()
			return ready(ctx)
		})
	}
}

// gathered is the result of a scrape.
type gathered struct {
	families []*dto.MetricFamily
	err      error
}

// sharedScrape is metrics that many may ask for at once: some of them are read from the stores.
func sharedScrape(metrics prometheus.Gatherer) prometheus.Gatherer {
	answers := newShared[gathered]()
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		g := answers.get(func() (g gathered) {
			g.families, g.err = metrics.Gather()
			return g
		})
		return g.families, g.err
	})
}
