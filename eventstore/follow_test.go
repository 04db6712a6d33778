package eventstore_test

import (
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestFollowSurvivesARestartOfTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := newRestartable(t, dir)
	store := must.Get(esdb.OpenUnix(socket.path, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	next, stop := iter.Pull(eventstore.Follow(ctx, store, eventstore.Start, eventstore.Categories("counter"),
		slog.New(slog.DiscardHandler)))
	defer stop()
	id := uuid.New()
	want := eventstore.Revision(0)
	for round := range 3 {
		if round > 0 {
			socket.restart()
		}
		for range 5 {
			must.Get(counter.Execute(ctx, store, id, count{By: 1, Limit: 100}, options{Metadata: test()}))(t)
		}
		for seen := 0; seen < 5; {
			message, ok := next()
			must.True(t, ok, "the subscription ended")
			if message.Event == nil {
				continue
			}
			must.Equal(t, message.Event.Revision, want, "revision")
			want++
			seen++
		}
	}
}

// restartable is a node that goes away and comes back on the same socket with the same data.
type restartable struct {
	t    *testing.T
	dir  string
	path string
	stop func()
}

func newRestartable(t *testing.T, dir string) *restartable {
	t.Helper()
	r := &restartable{t: t, dir: dir, path: filepath.Join(nodetest.SocketDir(t), "s")}
	r.stop = nodetest.Serve(t, dir, r.path)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *restartable) restart() {
	r.stop()
	r.stop = nodetest.Serve(r.t, r.dir, r.path)
}

// fill appends events to a new stream, and returns the position of the last.
func fill(ctx context.Context, t *testing.T, store eventstore.Store, events int) (last eventstore.Position) {
	t.Helper()
	id := uuid.New()
	for range events {
		out := must.Get(counter.Execute(ctx, store, id, count{By: 1, Limit: events}, options{Metadata: test()}))(t)
		last = out.Position
	}
	return last
}

// TestFollowEndsAtInvalidPosition: a server that refuses a position always does, so trying again would not help.
func TestFollowEndsAtInvalidPosition(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			store := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler))
			between := fill(ctx, t, store, 1)
			fill(ctx, t, store, 1)
			between.Commit, between.Prepare = between.Commit+1, between.Prepare+1
			for message := range eventstore.Follow(ctx, store, between, eventstore.Filter{}, slog.New(slog.DiscardHandler)) {
				t.Errorf("%+v came", message)
			}
			assert.True(t, ctx.Err() == nil, "it did not end")
		})
	}
}

// TestFollowEndsBeyondTheEnd: a store that was restored from an older backup would deliver nothing until it has grown.
func TestFollowEndsBeyondTheEnd(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"plain": nil, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			older := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler))
			fill(ctx, t, older, 1)
			store := nodetest.NewReplaceable(nodetest.Start(t))
			last := fill(ctx, t, store, 20)
			for message := range eventstore.Follow(ctx, store, eventstore.Start, eventstore.Filter{},
				slog.New(slog.DiscardHandler)) {
				if message.Position == last {
					store.Replace(older)
				}
			}
			assert.True(t, ctx.Err() == nil, "it did not end")
		})
	}
}

func TestBetween(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	at := []eventstore.Position{eventstore.Start}
	for range 4 {
		done, err := counter.Execute(t.Context(), store, uuid.New(), count{By: 1, Limit: 100}, options{Metadata: test()})
		must.OK(t, err)
		at = append(at, done.Position)
	}
	head := must.Get(store.Head(t.Context()))(t)
	for _, c := range []struct {
		after, end eventstore.Position
		want       []eventstore.Position
	}{
		{at[0], head, at[1:]},
		{at[1], at[3], at[2:4]},
		{at[2], at[2], nil},
		{at[3], at[1], nil},
	} {
		var got []eventstore.Position
		for e, err := range eventstore.Between(t.Context(), store, c.after, c.end, eventstore.Categories("counter")) {
			must.OK(t, err)
			got = append(got, e.Position)
		}
		assert.Slices(t, got, c.want, "between %s and %s", c.after, c.end)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range eventstore.Between(ended, store, eventstore.Start, head, eventstore.Filter{}) {
		assert.True(t, err != nil, "an event of an ended context")
		return
	}
	t.Error("no error of an ended context")
}

type (
	fact       interface{ fact() }
	renamed    struct{ Name, Reason string }
	renamedV1  struct{ Title string } // as it was stored at first
	unrecorded struct{}
)

func (renamed) fact()    {}
func (unrecorded) fact() {}

var facts = eventstore.NewCodec(
	eventstore.Case[fact, renamed]("thing.renamed.v2"),
	eventstore.Upcast("thing.renamed.v1", func(old renamedV1) fact {
		return renamed{Name: old.Title, Reason: "not recorded"}
	}),
)

func TestEventsStoredUnderAnOldNameReadAsTodays(t *testing.T) {
	t.Parallel()
	got, err := facts.Decode(&eventstore.Recorded{Type: "thing.renamed.v1", Data: []byte(`{"Title":"Bell"}`)})
	want := (renamed{Name: "Bell", Reason: "not recorded"})
	assert.True(t, err == nil && got == want, "%+v, %v; want %+v", got, err, want)
	name, data, err := facts.Encode(got)
	assert.True(t, name == "thing.renamed.v2" && err == nil, "stored as %s, %v; want the name of today", name, err)
	if again, err := facts.Decode(&eventstore.Recorded{Type: name, Data: data}); err != nil || again != got {
		t.Errorf("%+v, %v; want %+v", again, err, got)
	}
}

func TestCodec_unknownEventIsNeverSkipped(t *testing.T) {
	t.Parallel()
	for name, stored := range map[string]eventstore.Recorded{
		"an unknown name": {Type: "thing.renamed.v3", Data: []byte(`{}`)},
		"broken data":     {Type: "thing.renamed.v2", Data: []byte(`{"Name":1}`)},
		"broken old data": {Type: "thing.renamed.v1", Data: []byte(`{"Title":`)},
	} {
		assert.Is(t, assert.Err(facts.Decode(&stored)), eventstore.ErrUndecodable, "%s", name)
	}
	_, _, err := facts.Encode(unrecorded{})
	assert.True(t, err != nil, "an event without a stored name was encoded")
}

func TestPersonOf(t *testing.T) {
	t.Parallel()
	forged := eventstore.MadeBy("ann", "operator:eve")
	for actor, want := range map[string]string{
		"console:ann": "ann",
		eventstore.PersonActor(eventstore.MadeBy("ann", "operator:bob")):  "ann",
		eventstore.PersonActor(eventstore.MadeBy(forged, "operator:bob")): forged,
		"console:Ann (by the river)":                                      "Ann",
		"console: (by operator)":                                          " (by operator)",
		"key:ab12CD34":                                                    "",
	} {
		if got, is := eventstore.PersonOf(actor); is != (want != "") || is && got != want {
			t.Errorf("%s: %q %t, want %q", actor, got, is, want)
		}
	}
}

func TestSameJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{`{"a":1,"b":[2]}`, "{ \"b\": [2],\n\"a\": 1 }", true},
		{`"é"`, `"\u00e9"`, true},
		{`1.0`, `1`, true},
		{`1e2`, `100`, true},
		{`[1,2]`, `[2,1]`, false},
		{`9007199254740993`, `9007199254740992`, false},
		{`1`, `"1"`, false},
		{`{"a":null}`, `{}`, false},
		{`null`, `false`, false},
		{`{`, `{`, true},
		{`{`, `{ `, false},
	} {
		assert.Equal(t, eventstore.SameJSON(eventstore.JSON(tt.a), eventstore.JSON(tt.b)), tt.want, "%s and %s", tt.a, tt.b)
	}
}
