// Package processtest tests the rule of a process manager: given events, then its recorded events, on a real store.
package processtest

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/nodetest"
)

// Rule is the behaviour of a process manager: given events, then its commands, as the events that they recorded.
type Rule struct {
	Store eventstore.Store

	t     *testing.T
	fresh func(eventstore.Store) eventstore.ProcessManager
	runs  eventstore.ProcessManager
	after eventstore.Position // of the last event it has seen
}

// Of makes the rule of a process manager, on an empty store.
func Of(t *testing.T, fresh func(eventstore.Store) eventstore.ProcessManager) *Rule {
	t.Helper()
	store := nodetest.Start(t)
	return &Rule{
		Store: store,
		t:     t,
		fresh: fresh,
		runs:  fresh(store),
	}
}

// Given records events, at the end of their stream.
func Given[S, E, C any](r *Rule, a eventstore.Aggregate[S, E, C], id uuid.UUID, events ...E) {
	r.t.Helper()
	loaded, err := a.Load(r.t.Context(), r.Store, id)
	if err != nil {
		r.t.Fatal(err)
	}
	proposed := make([]eventstore.Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		if err != nil {
			r.t.Fatal(err)
		}
		proposed[i] = eventstore.Proposed{ID: uuid.New(), Type: name, Data: data}
	}
	if _, err := r.Store.Append(r.t.Context(), a.Stream(id), loaded.Revision, proposed); err != nil {
		r.t.Fatal(err)
	}
}

// Then lets the process manager react to new events, and compares the events it recorded, each as "stream type".
// Another instance without state, which sees all events again, records nothing more.
func (r *Rule) Then(want ...string) {
	r.t.Helper()
	before := r.head()
	r.react(r.runs, r.after)
	r.after = before
	got := r.recorded(before)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("recorded (-want +got):\n%s", diff)
	}
	end := r.head()
	r.react(r.fresh(r.Store), eventstore.Start)
	if more := r.recorded(end); len(more) > 0 {
		r.t.Errorf("another time it recorded %v", more)
	}
}

func (r *Rule) react(manager eventstore.ProcessManager, after eventstore.Position) {
	r.t.Helper()
	manager.Begin(r.head())
	if err := manager.React(r.t.Context(), r.Events(after, manager.Filter())); err != nil {
		r.t.Fatal(err)
	}
	Finish(r.t, manager)
}

// Finish waits until all is recorded that a process manager has taken on.
func Finish(t *testing.T, manager eventstore.ProcessManager) {
	t.Helper()
	d, defers := manager.(eventstore.Deferring)
	if !defers {
		return
	}
	if pending := d.Pending(); pending != nil {
		if err := pending(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *Rule) head() eventstore.Position {
	r.t.Helper()
	head, err := r.Store.Head(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return head
}

func (r *Rule) recorded(after eventstore.Position) []string {
	r.t.Helper()
	var list []string
	for _, event := range r.Events(after, eventstore.Filter{}) {
		metadata, err := eventstore.ParseMetadata(event.Metadata)
		if err != nil || metadata.Actor != r.runs.Name() {
			r.t.Errorf("%s by %q (%v)", event.Type, metadata.Actor, err)
		}
		list = append(list, fmt.Sprint(event.Stream, " ", event.Type))
	}
	return list
}

// Events lists what the store holds after a position.
func (r *Rule) Events(after eventstore.Position, filter eventstore.Filter) (list []eventstore.Recorded) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	for message, err := range r.Store.Subscribe(ctx, after, filter) {
		switch {
		case err != nil:
			r.t.Fatal(err)
		case message.CaughtUp:
			return list
		case message.Event != nil:
			list = append(list, *message.Event)
		}
	}
	return list
}
