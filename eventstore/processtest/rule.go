// Package processtest tests the rule of a process manager: given events, then its recorded events, on a real store.
package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Rule is the behaviour of a process manager: given events, then its commands, as the events that they recorded.
type Rule struct {
	Store eventstore.Store

	t     *testing.T
	fresh func(eventstore.Store) eventstore.ProcessManager
	runs  eventstore.ProcessManager
	after eventstore.Position // of the last event it has seen
	why   []string            // the reasons of the events that Then saw
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

// Given returns what records events at the end of a stream.
func Given[S, E, C any](r *Rule, a eventstore.Aggregate[S, E, C], id uuid.UUID) func(events ...E) {
	return func(events ...E) {
		r.t.Helper()
		Record(r.t, r.Store, a, id, events...)
	}
}

// Record records events at the end of a stream.
func Record[S, E, C any](
	t testing.TB, store eventstore.Store, a eventstore.Aggregate[S, E, C], id uuid.UUID, events ...E,
) {
	t.Helper()
	loaded := must.Get(a.Load(t.Context(), store, id))(t)
	proposed := make([]eventstore.Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		must.OK(t, err)
		proposed[i] = eventstore.Proposed{ID: uuid.New(), Type: name, Data: data}
	}
	must.Get(store.Append(t.Context(), a.Stream(id), loaded.Revision, proposed))(t)
}

// Tombstone deletes a stream as another client of the event store can.
func (r *Rule) Tombstone(stream string) {
	r.t.Helper()
	store, is := r.Store.(*esdb.Store)
	if !is {
		r.t.Fatal("the store deletes no streams")
	}
	must.OK(r.t, store.Tombstone(r.t.Context(), stream))
}

// Then lets the process manager react to new events, and compares the events it recorded, each as "stream type".
// Another instance without state, which sees all events again, records nothing more.
func (r *Rule) Then(want ...string) {
	r.t.Helper()
	before := r.head()
	r.react(r.runs, r.after)
	r.after = before
	got, why := r.recorded(before)
	r.why = why
	slices.Sort(got)
	slices.Sort(want)
	assert.Same(r.t, got, want)
	end := r.head()
	r.react(r.fresh(r.Store), eventstore.Start)
	if more, _ := r.recorded(end); len(more) > 0 {
		r.t.Errorf("another time it recorded %v", more)
	}
}

func (r *Rule) react(manager eventstore.ProcessManager, after eventstore.Position) {
	r.t.Helper()
	manager.Begin(r.head())
	must.OK(r.t, manager.React(r.t.Context(), r.Events(after, manager.Traits().Filter)))
	Finish(r.t, manager)
}

// Finish waits until all is recorded that a process manager has taken on.
func Finish(t *testing.T, manager eventstore.ProcessManager) {
	t.Helper()
	d := manager.Traits().Deferred
	if d == nil {
		return
	}
	if pending := d.Pending(); pending != nil {
		must.OK(t, pending(t.Context()))
	}
}

func (r *Rule) head() eventstore.Position {
	r.t.Helper()
	head := must.Get(r.Store.Head(r.t.Context()))(r.t)
	return head
}

// Because expects that each of the events that Then saw has a reason.
func (r *Rule) Because(reason string) {
	r.t.Helper()
	assert.Same(r.t, r.why, slices.Repeat([]string{reason}, len(r.why)))
}

func (r *Rule) recorded(after eventstore.Position) (list, reasons []string) {
	r.t.Helper()
	for _, event := range r.Events(after, eventstore.Filter{}) {
		metadata := must.Get(eventstore.ParseMetadata(event.Metadata))(r.t)
		assert.Equal(r.t, metadata.Actor, r.runs.Traits().Name, "%s by", event.Type)
		r.follows(&event, metadata)
		list, reasons = append(list, fmt.Sprint(event.Stream, " ", event.Type)), append(reasons, metadata.Reason)
	}
	return list, reasons
}

// follows expects that a recorded event names its organization and its cause, happens at the time of that, as it would
// if it was recorded another time, and has the reason that is on record.
func (r *Rule) follows(event *eventstore.Recorded, metadata eventstore.Metadata) {
	r.t.Helper()
	var data struct {
		At     time.Time
		Reason *string
	}
	all := r.Events(eventstore.Start, eventstore.Filter{})
	i := slices.IndexFunc(all, func(e eventstore.Recorded) bool { return e.ID == metadata.CausationID })
	ofNone := metadata.Organization == uuid.Nil && event.Category() != "dispatch" // an event of a feed is of many
	err := json.Unmarshal(event.Data, &data)
	if err != nil || ofNone || i < 0 || !data.At.Equal(all[i].RecordedAt()) ||
		data.Reason != nil && *data.Reason != metadata.Reason {
		r.t.Errorf("%s at %s, of %s, because of %s (%v)", event.Type, data.At, metadata.Organization, metadata.CausationID,
			err)
	}
}

// Events lists what the store holds after a position.
func (r *Rule) Events(after eventstore.Position, filter eventstore.Filter) (list []eventstore.Recorded) {
	r.t.Helper()
	return Events(r.t, r.Store, after, filter)
}

// Events lists what a store holds after a position.
func Events(
	t testing.TB, store eventstore.Store, after eventstore.Position, filter eventstore.Filter,
) (list []eventstore.Recorded) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for message, err := range store.Subscribe(ctx, after, filter) {
		switch {
		case err != nil:
			t.Fatal(err)
		case message.CaughtUp:
			return list
		case message.Event != nil:
			list = append(list, *message.Event)
		}
	}
	return list
}
