package protocol

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// pages reads $all in pages from a position to the end, and returns the fixture's events.
func (f *fixture) pages(
	direction esdb.Direction, from esdb.AllPosition, size uint64, until esdb.Position,
) (ids []uuid.UUID) {
	f.Helper()
	for skip := 0; ; skip = 1 {
		events := must.Get(f.client.ReadAll(f.ctx, esdb.ReadAllOptions{Direction: direction, From: from}, size))(f)
		list := must.Get(drain(events))(f)
		if direction == esdb.Backwards {
			skip = 0 // backwards excludes the position, forwards includes it
		}
		if len(list) <= skip {
			return ids
		}
		for _, e := range list[skip:] {
			at := e.OriginalEvent().Position
			if direction == esdb.Backwards && at.Commit < until.Commit {
				return ids
			}
			if strings.HasPrefix(e.OriginalEvent().StreamID, f.prefix) {
				ids = append(ids, e.OriginalEvent().EventID)
			}
			from = at
		}
	}
}

func all(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	var want []uuid.UUID
	var first esdb.Position
	var last uint64
	for i := range 25 {
		list := events(1 + i%3)
		result := f.append(f.stream(strconv.Itoa(i%4)), esdb.Any{}, list...)
		if result.CommitPosition <= last {
			t.Errorf("position %d follows %d", result.CommitPosition, last)
		}
		last = result.CommitPosition
		for _, e := range list {
			want = append(want, e.EventID)
		}
		if i == 0 {
			first = esdb.Position{Commit: result.CommitPosition, Prepare: result.PreparePosition}
		}
	}
	for _, size := range []uint64{2, 7, 1000} {
		if got := f.pages(esdb.Forwards, first, size, first); !slices.Equal(got, want) {
			t.Errorf("forwards by %d: %d events in another order than the %d appended", size, len(got), len(want))
		}
		back := f.pages(esdb.Backwards, esdb.End{}, size, first)
		slices.Reverse(back)
		assert.Slices(t, back, want,
			"backwards by %d: %d events in another order than the %d appended", size, len(back), len(want))
	}
}

// follow collects the ids of events, and the checkpoints, of a subscription until it has caught up.
func (f *fixture) follow(options esdb.SubscribeToAllOptions) (ids []uuid.UUID, checkpoints []esdb.Position) {
	f.Helper()
	subscription := must.Get(f.client.SubscribeToAll(f.ctx, options))(f)
	defer func() { _ = subscription.Close() }()
	for {
		switch step := subscription.Recv(); {
		case step.SubscriptionDropped != nil:
			f.Fatalf("dropped: %v", step.SubscriptionDropped.Error)
		case step.EventAppeared != nil:
			ids = append(ids, step.EventAppeared.Event.EventID)
		case step.CheckPointReached != nil:
			checkpoints = append(checkpoints, *step.CheckPointReached)
		case step.CaughtUp != nil:
			return ids, checkpoints
		}
	}
}

func filters(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	kind := "t" + f.prefix
	var before esdb.Position
	var wanted []uuid.UUID // those of stream a with the type y
	for i := range 300 {
		stream, eventType := "a", kind+"-x"
		if i%50 != 7 {
			stream = "b"
		} else {
			eventType = kind + "-y"
		}
		e := event(eventType, `{}`)
		result := f.append(f.stream(stream), esdb.Any{}, e)
		if i == 0 {
			before = esdb.Position{Commit: result.CommitPosition, Prepare: result.PreparePosition}
		}
		if stream == "a" {
			wanted = append(wanted, e.EventID)
		}
	}
	for name, filter := range map[string]esdb.SubscriptionFilter{
		"stream prefix":      {Type: esdb.StreamFilterType, Prefixes: []string{f.stream("a")}},
		"one of prefixes":    {Type: esdb.StreamFilterType, Prefixes: []string{f.stream("zzz"), f.stream("a")}},
		"stream expression":  {Type: esdb.StreamFilterType, Regex: "^" + f.prefix + "-[ac]$"},
		"type prefix":        {Type: esdb.EventFilterType, Prefixes: []string{kind + "-y"}},
		"type expression":    {Type: esdb.EventFilterType, Regex: "^" + kind + ".y$"},
		"expression within":  {Type: esdb.EventFilterType, Regex: kind + "-(y|z)"},
		"beginning of an id": {Type: esdb.StreamFilterType, Prefixes: []string{f.prefix + "-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{
				T:      t,
				client: client,
				ctx:    f.ctx,
				prefix: f.prefix,
			}
			ids, checkpoints := f.follow(esdb.SubscribeToAllOptions{
				From:               before,
				Filter:             &filter,
				MaxSearchWindow:    32,
				CheckpointInterval: 1,
			})
			assert.Slices(t, ids, wanted, "%d events, want %d", len(ids), len(wanted))
			// 293 events were looked at in vain: there must be checkpoints, in order, and nothing is lost after one.
			// How many there are is the server's affair.
			if len(checkpoints) == 0 {
				t.Fatal("no checkpoint")
			}
			if !slices.IsSortedFunc(checkpoints, func(a, b esdb.Position) int {
				return cmp.Compare(a.Commit, b.Commit)
			}) {
				t.Error("checkpoints go back")
			}
			middle := checkpoints[len(checkpoints)/2]
			rest, _ := f.follow(esdb.SubscribeToAllOptions{From: middle, Filter: &filter})
			if n := len(wanted) - len(rest); n < 0 || !slices.Equal(rest, wanted[n:]) {
				t.Errorf("after a checkpoint: %d events, not the last of %d", len(rest), len(wanted))
			}
			end, _ := f.follow(esdb.SubscribeToAllOptions{From: checkpoints[len(checkpoints)-1], Filter: &filter})
			if len(end) > len(rest) {
				t.Errorf("%d events after the last checkpoint, %d after one before", len(end), len(rest))
			}
		})
	}
}
