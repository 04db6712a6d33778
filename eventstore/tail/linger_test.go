package tail_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/must"
	"carillon/eventstore/tail"
)

// years is a linger that does not end while a test runs.
const years = 100 * 365 * 24 * time.Hour

// hurried is a closed channel: a caller waits.
func hurried() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestContractOfWhoLingers(t *testing.T) {
	t.Parallel()
	store := tail.New(nodetest.Start(t), slog.New(slog.DiscardHandler))
	storetest.Run(t, store.Lingering(50*time.Millisecond, func() <-chan struct{} { return nil }))
}

// lingerer reads a category, and passes on its events after it has caught up.
func lingerer(t *testing.T, store eventstore.Store, category string) <-chan eventstore.Position {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	came, caught, ended := make(chan eventstore.Position, 10_000), make(chan struct{}), make(chan struct{})
	caughtUp := sync.OnceFunc(func() { close(caught) })
	go func() {
		defer close(ended)
		for m := range store.Subscribe(ctx, eventstore.Start, eventstore.Categories(category)) {
			switch {
			case m.CaughtUp:
				caughtUp()
			case m.Event != nil:
				came <- m.Position
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-caught:
	case <-time.After(patience):
		t.Fatal("it does not catch up")
	}
	return came
}

func next(t *testing.T, came <-chan eventstore.Position, want eventstore.Position) {
	t.Helper()
	select {
	case at := <-came:
		must.Equal(t, at, want, "came")
	case <-time.After(patience):
		t.Fatalf("%s does not come", want)
	}
}

// A lingering reader gets nothing while others get everything, and all of it once a caller waits.
func TestLinger_eventsComeTogether(t *testing.T) {
	t.Parallel()
	store := tail.New(nodetest.Start(t), slog.New(slog.DiscardHandler))
	waits, lingers := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(lingers) })
	patient := lingerer(t, store.Lingering(years, func() <-chan struct{} { begin(); return waits }), "a")
	prompt := lingerer(t, store, "a")
	var want []eventstore.Position
	add := func() {
		want = append(want, record(t, store, "a"))
		next(t, prompt, want[len(want)-1])
	}
	for lingering := false; !lingering || len(patient) > 0; { // the first ones may come before it has caught up
		if !lingering {
			add()
		}
		select {
		case <-lingers:
			lingering = true
		case at := <-patient:
			want = slices.DeleteFunc(want, func(w eventstore.Position) bool { return w == at })
		}
	}
	for range 20 {
		add()
	}
	must.Equal(t, len(patient), 0, "events came while no caller waited")
	close(waits)
	for _, at := range want {
		next(t, patient, at)
	}
	next(t, patient, record(t, store, "a")) // and it does not linger while a caller waits
}

// It does not linger on until what waits for it is lost to it.
func TestLinger_endsAtTooMany(t *testing.T) {
	t.Parallel()
	const kept = 16
	below := &counted{Store: nodetest.Start(t)}
	store := tail.NewSized(below, slog.New(slog.DiscardHandler), kept)
	patient := lingerer(t, store.Lingering(years, func() <-chan struct{} { return nil }), "a")
	prompt := lingerer(t, store, "a")
	want := make([]eventstore.Position, 0, 4*kept)
	for range cap(want) {
		want = append(want, record(t, store, "a"))
		next(t, prompt, want[len(want)-1])
	}
	for _, at := range want[:len(want)-kept] {
		next(t, patient, at)
	}
}

// A reader that catches up does not linger.
func TestLinger_notWhileCatchingUp(t *testing.T) {
	t.Parallel()
	store := tail.New(nodetest.Start(t), slog.New(slog.DiscardHandler))
	want := []eventstore.Position{record(t, store, "a"), record(t, store, "a")}
	came := lingerer(t, store.Lingering(years, hurried), "a")
	for _, at := range want {
		next(t, came, at)
	}
}
