package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"carillon/eventstore/reach"
)

// An event store or a Postgres that gives no answer is named by readiness, with since when, and by a metric.
func TestUnreachableIsShown(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	a.stores.watchReach()
	for _, w := range []*struct {
		name, metric string
		lose         func()
	}{
		{"eventStore", "carillon_eventstore_reachable", func() {
			a.stores.storeReach.Heard = nil
			lose(t, a.stores.storeReach)
		}},
		{"postgres", "carillon_postgres_reachable", func() { lose(t, a.stores.databaseReach) }},
	} {
		if _, body := get("/metrics"); !strings.Contains(body, w.metric+" 1\n") {
			t.Errorf("%s: no metric while it is reached", w.name)
		}
		w.lose()
		for deadline := time.Now().Add(2 * time.Minute); ; {
			status, body := get("/readyz")
			if status == 503 && strings.Contains(body, w.name+" (no answer since ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: readyz %d %s", w.name, status, body)
			}
			<-time.After(5 * time.Millisecond)
		}
		if _, body := get("/metrics"); !strings.Contains(body, w.metric+" 0\n") {
			t.Errorf("%s: no metric of the loss", w.name)
		}
	}
}

// lose runs a watch that gets no answer.
func lose(t *testing.T, w *reach.Watch) {
	t.Helper()
	w.Beat, w.Ask = 20*time.Millisecond, func(context.Context) error { return errors.New("cut") }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}
