package eventstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// counter is the smallest aggregate: it counts up, to a limit.
type (
	counted struct {
		By int `json:"by"`
	}
	count struct{ By, Limit int }
)

var errLimit = errors.New("limit reached")

var counter = eventstore.Aggregate[int, counted, count]{
	Category: "counter",
	Codec:    eventstore.NewCodec(eventstore.Case[counted, counted]("counter.counted.v1")),
	Evolve:   func(sum int, e counted) int { return sum + e.By },
	Decide: func(sum int, c count) ([]counted, error) {
		if sum+c.By > c.Limit {
			return nil, errLimit
		}
		return []counted{{By: c.By}}, nil
	},
}

type options = eventstore.Options[int]

func test() eventstore.Metadata { return eventstore.Metadata{Actor: "test", Organization: uuid.New()} }

func TestConflictsAreDecidedAgain(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	var group sync.WaitGroup
	var refused atomic.Int64
	for range 6 {
		group.Go(func() {
			for range 3 {
				_, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, options{Metadata: test()})
				if errors.Is(err, errLimit) {
					refused.Add(1)
				} else if err != nil {
					t.Errorf("execute: %v", err)
				}
			}
		})
	}
	group.Wait()
	loaded, err := counter.Load(t.Context(), store, id)
	assert.True(t, err == nil && loaded.State == 10 && loaded.Revision == 9 && refused.Load() == 8,
		"state %+v, %d refused, %v; want 10 counted and 8 refused", loaded, refused.Load(), err)
}

func TestExecute_oldKnownStateCostsARead(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	must.Get(counter.Execute(t.Context(), store, id, count{By: 9, Limit: 10}, options{Metadata: test()}))(t)
	old := eventstore.Loaded[int]{Revision: eventstore.NoStream}
	if _, err := counter.Execute(t.Context(), store, id,
		count{By: 9, Limit: 10}, options{Metadata: test(), Known: &old}); !errors.Is(err, errLimit) {
		t.Errorf("error = %v: the decision was made on the old state", err)
	}
}

func TestExecute_onlyKnownFailsOnOtherState(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	first := must.Get(counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, options{Metadata: test()}))(t)
	on := options{Metadata: test(), Known: &first.Loaded, OnlyKnown: true}
	assert.Equal(t, must.Get(counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, on))(t).State, 2,
		"on the state that")
	on.CommandID = uuid.New()
	_, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, on)
	assert.True(t, errors.Is(err, eventstore.ErrWrongRevision), "on a state that was: %v, want a wrong revision", err)
	on.Known = nil
	assert.True(t, assert.Err(counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, on)) != nil,
		"a command for one state only was accepted without that state")
	assert.Equal(t, must.Get(counter.Load(t.Context(), store, id))(t).State, 2, "counted")
}

func TestExecute_recordsOncePerID(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	again := options{CommandID: uuid.New(), Metadata: test()}
	for range 2 {
		assert.Equal(t, must.Get(counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, again))(t).State, 1,
			"under one id")
	}
	for want := 2; want <= 3; want++ { // without an id each is a separate command
		out, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, options{})
		assert.True(t, err == nil && out.State == want, "without an id: %+v, %v; want %d", out, err, want)
	}
}

// The events of a command have ids of their own, derived from the command's: a store takes two with one id for a
// repetition.
func TestEventIDs_differWithinACommand(t *testing.T) {
	t.Parallel()
	store, id, command := nodetest.Start(t), uuid.New(), uuid.New()
	thrice := counter
	thrice.Decide = func(_ int, c count) ([]counted, error) { return []counted{{By: c.By}, {By: c.By}, {By: c.By}}, nil }
	on := options{CommandID: command, Metadata: test()}
	must.Get(thrice.Execute(t.Context(), store, id, count{By: 1}, on))(t)
	var ids []uuid.UUID
	for event, err := range store.Read(t.Context(), counter.Stream(id), 0) {
		must.OK(t, err)
		ids = append(ids, event.ID)
	}
	want := []uuid.UUID{eventstore.EventID(command, 0), eventstore.EventID(command, 1), eventstore.EventID(command, 2)}
	assert.True(t, slices.Equal(ids, want) && ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2],
		"ids %v, want %v", ids, want)
}

// deaf loses the answer of the first append that gets through.
type deaf struct {
	eventstore.Store
	lost atomic.Bool
}

func (d *deaf) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	appended, err := d.Store.Append(ctx, stream, expected, events)
	if err == nil && d.lost.CompareAndSwap(false, true) {
		return eventstore.Appended{}, fmt.Errorf("%w: the answer was lost", eventstore.ErrUnavailable)
	}
	return appended, err
}

func TestExecute_lostAnswerIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	node := nodetest.Start(t)
	for name, o := range map[string]options{
		"loaded":     {},
		"known":      {Known: &eventstore.Loaded[int]{Revision: eventstore.NoStream}},
		"only known": {Known: &eventstore.Loaded[int]{Revision: eventstore.NoStream}, OnlyKnown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, id := &deaf{Store: node}, uuid.New()
			out, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, o)
			assert.True(t, err == nil && out.State == 1 && out.Revision == 0 && out.Position != eventstore.Start,
				"outcome %+v, %v; want 1", out, err)
			assert.Equal(t, must.Get(counter.Load(t.Context(), store, id))(t), out.Loaded,
				"the stream … the outcome was %+v", out)
		})
	}
}

// counting counts appends.
type counting struct {
	eventstore.Store
	appends atomic.Int64
}

func (c *counting) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	c.appends.Add(1)
	return c.Store.Append(ctx, stream, expected, events)
}

// TestFullDiskIsToldAtOnce: while the disk is full, a command is not tried again and again.
func TestFullDiskIsToldAtOnce(t *testing.T) {
	t.Parallel()
	full, err := node.Open(node.Config{Dir: t.TempDir(), MinFreeBytes: math.MaxUint64})
	must.OK(t, err)
	for !full.Full() {
		runtime.Gosched()
	}
	t.Cleanup(func() {
		must.OK(t, full.Close())
	})
	store := &counting{Store: full.Store()}
	_, err = counter.Execute(t.Context(), store, uuid.New(), count{By: 1, Limit: 10}, options{})
	assert.True(t, errors.Is(err, eventstore.ErrFull) && errors.Is(err, eventstore.ErrUnavailable) &&
		store.appends.Load() == 1, "%d appends, and then %v", store.appends.Load(), err)
}

func TestMetadataIsStored(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	metadata := test()
	metadata.Reason = "because"
	must.Get(counter.Execute(t.Context(), store, id, count{By: 1, Limit: 1}, options{Metadata: metadata}))(t)
	for recorded, err := range store.Read(t.Context(), counter.Stream(id), 0) {
		must.OK(t, err)
		got, err := eventstore.ParseMetadata(recorded.Metadata)
		want := metadata
		want.SchemaVersion = eventstore.SchemaVersion
		assert.True(t, err == nil && got == want, "metadata = %+v, %v, want %+v", got, err, want)
		assert.True(t, recorded.Category() == "counter" && recorded.StreamID() == id,
			"stream %s is not of counter %s", recorded.Stream, id)
	}
}

func TestAnUnknownEventIsUndecodable(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	for _, alien := range []eventstore.Proposed{
		{ID: uuid.New(), Type: "counter.exploded.v1", Data: []byte(`{}`)},
		{ID: uuid.New(), Type: "counter.counted.v1", Data: []byte(`{"by":"one"}`)},
	} {
		id := uuid.New()
		must.Get(store.Append(t.Context(), counter.Stream(id), eventstore.NoStream, []eventstore.Proposed{alien}))(t)
		assert.Is(t, assert.Err(counter.Load(t.Context(), store, id)), eventstore.ErrUndecodable, "error")
	}
}

// softDelete deletes a stream as clients of EventStoreDB do: its next event gets the next revision.
func softDelete(t *testing.T, store *esdb.Store, stream string) {
	t.Helper()
	last := must.Get(store.LastRevision(t.Context(), "$$"+stream))(t)
	entry := esdb.Entry{JSON: true, Recorded: eventstore.Recorded{
		ID: uuid.New(), Type: "$metadata", Data: fmt.Appendf(nil, `{"$tb":%d}`, math.MaxInt64),
	}}
	must.Get(store.AppendEntries(t.Context(), "$$"+stream, last, []esdb.Entry{entry}))(t)
}

// kinds are the nodes that commands are executed on: the embedded one, and one that behaves as EventStoreDB.
var kinds = map[string]*stricttest.Strict{"plain": nil, "strict": {}}

// TestLostAnswerAfterDeletion: a real server takes the retry of an append to a soft-deleted stream for a wrong expected
// version, although the append was written.
func TestLostAnswerAfterDeletion(t *testing.T) {
	t.Parallel()
	for kind, strict := range kinds {
		server := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler))
		none := &eventstore.Loaded[int]{Revision: eventstore.NoStream}
		for name, o := range map[string]options{
			"loaded":     {},
			"known":      {Known: none},
			"only known": {Known: none, OnlyKnown: true},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				store, id := &deaf{Store: server}, uuid.New()
				store.lost.Store(true)
				must.Get(counter.Execute(t.Context(), store, id, count{By: 5, Limit: 10}, options{}))(t)
				softDelete(t, server, counter.Stream(id))
				store.lost.Store(false)
				out, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, o)
				assert.True(t, err == nil && out.State == 1 && out.Revision == 1, "outcome %+v, %v; want 1 at revision 1", out, err)
				assert.Equal(t, must.Get(counter.Load(t.Context(), store, id))(t), out.Loaded,
					"the stream … the outcome was %+v", out)
			})
		}
	}
}

// TestOthersEventIsNotTakenForOurs: after a lost answer, an append that another writer came before is refused.
func TestOthersEventIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	server, id := nodetest.Start(t), uuid.New()
	must.Get(counter.Execute(t.Context(), server, id, count{By: 5, Limit: 10}, options{}))(t)
	none := &eventstore.Loaded[int]{Revision: eventstore.NoStream}
	store := &absent{Store: server}
	_, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, options{Known: none, OnlyKnown: true})
	assert.True(t, errors.Is(err, eventstore.ErrWrongRevision) && store.appends == 2,
		"%d appends, error = %v, want a wrong revision after the second", store.appends, err)
}

// absent does not carry out the first append.
type absent struct {
	eventstore.Store
	appends int
}

func (a *absent) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if a.appends++; a.appends == 1 {
		return eventstore.Appended{}, eventstore.ErrUnavailable
	}
	return a.Store.Append(ctx, stream, expected, events)
}

// TestDeletedEventsAreNotWrittenAgain: a command that was recorded before its stream was deleted is not executed again
// by a real server, and is by the node. A separate command is recorded on both.
func TestDeletedEventsAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	for kind, strict := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			store, id := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), uuid.New()
			first := options{CommandID: uuid.New()}
			must.Get(counter.Execute(t.Context(), store, id, count{By: 5, Limit: 10}, first))(t)
			softDelete(t, store, counter.Stream(id))
			out, err := counter.Execute(t.Context(), store, id, count{By: 5, Limit: 10}, first)
			want := 5
			if strict != nil {
				want = 0
			}
			loaded, loadErr := counter.Load(t.Context(), store, id)
			assert.True(t, err == nil && loadErr == nil && loaded.State == want && out.Loaded == loaded,
				"outcome %+v, %v; the stream has %+v, %v; want %d", out, err, loaded, loadErr, want)
			out, err = counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, options{})
			loaded, loadErr = counter.Load(t.Context(), store, id)
			assert.True(t, err == nil && loadErr == nil && out.Loaded == loaded && loaded.State == want+1,
				"outcome %+v, %v; the stream has %+v, %v; want %d", out, err, loaded, loadErr, want+1)
		})
	}
}

// TestUnreplicatedAppendIsRecordedOnce: while a cluster can't replicate, its leader does not answer, and never answers
// an append that it gets again. The command is executed again under its id, and recorded once.
func TestUnreplicatedAppendIsRecordedOnce(t *testing.T) {
	t.Parallel()
	strict := &stricttest.Strict{}
	store, id := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), uuid.New()
	o := options{CommandID: uuid.New()}
	strict.StopReplication()
	held := func(waiting int, repeated int64) func() bool {
		return func() bool {
			w, r := strict.Held()
			return w == waiting && r == repeated
		}
	}
	execute := func(until func() bool) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := counter.Execute(ctx, store, id, count{By: 1, Limit: 10}, o)
			failed <- err
		}()
		for !until() {
			runtime.Gosched()
		}
		cancel()
		if err := <-failed; !errors.Is(err, eventstore.ErrUnavailable) && !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want unavailable", err)
		}
	}
	execute(held(1, 0))
	execute(held(1, 1))
	strict.Replicate()
	out, err := counter.Execute(t.Context(), store, id, count{By: 1, Limit: 10}, o)
	assert.True(t, err == nil && out.State == 1, "outcome %+v, %v; want 1", out, err)
	assert.Equal(t, must.Get(counter.Load(t.Context(), store, id))(t).State, 1, "the stream")
}

// TestCommandIDInTwoStreams: a real server remembers an id for one stream only, and the program needs no more.
func TestCommandIDInTwoStreams(t *testing.T) {
	t.Parallel()
	for kind, strict := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server, o := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), options{CommandID: uuid.New()}
			ids := []uuid.UUID{uuid.New(), uuid.New()}
			for range 2 {
				for _, id := range ids {
					out, err := counter.Execute(t.Context(), &deaf{Store: server}, id, count{By: 1, Limit: 10}, o)
					loaded, loadErr := counter.Load(t.Context(), server, id)
					assert.True(t, err == nil && loadErr == nil && out.Loaded == loaded && loaded.State == 1,
						"outcome %+v, %v; the stream has %+v, %v; want 1", out, err, loaded, loadErr)
				}
			}
		})
	}
}
