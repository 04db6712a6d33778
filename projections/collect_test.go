package projections

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/semaphore"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A batch ends when it has enough bytes, even if more events are there already.
func TestCollectBoundsBytes(t *testing.T) {
	t.Parallel()
	const large, waiting = maxBatchBytes / 4, 10
	s := &Subscriber{closed: make(chan struct{}), room: semaphore.NewWeighted(waiting * large)}
	steps := make(chan eventstore.Message, waiting)
	for i := range waiting {
		at := eventstore.Position{Commit: uint64(i + 1), Prepare: uint64(i + 1)}
		step := eventstore.Message{Position: at, Event: &eventstore.Recorded{Position: at, Data: make([]byte, large)}}
		must.True(t, s.room.TryAcquire(weight(step)), "no room")
		steps <- step
	}
	for _, want := range []int{4, 4, 2} {
		batch, ok := s.collect(t.Context(), steps)
		assert.True(t, ok && len(batch.Events) == want, "%d events in a batch, want %d", len(batch.Events), want)
	}
	assert.True(t, s.room.TryAcquire(waiting*large), "events of batches still take room")
	must.OK(t, s.Close())
	must.OK(t, s.Close()) // as Watermill may
	_, ok := s.collect(t.Context(), steps)
	assert.True(t, !ok, "a batch after the end")
}

// A connection that Postgres refuses is asked for again soon; anything else is tried less and less often.
func TestPauseBeforeConnectingAgain(t *testing.T) {
	t.Parallel()
	assert.Equal(t, longest(fmt.Errorf("connect: %w", &pgconn.ConnectError{})), connectPause, "after a refused connection")
	assert.Equal(t, longest(errors.New("anything")), maxPause, "after another error")
}

// A first version is identified by its schema alone, as in all databases that have one.
func TestFirstVersionIsItsSchema(t *testing.T) {
	t.Parallel()
	m := ReadModel{Version: 1, Schema: "CREATE TABLE a ();"}
	assert.Equal(t, m.ddl(), m.Schema, "the tables of version 1")
	m.Version++
	assert.Equal(t, m.ddl(), "-- version 2\n"+m.Schema, "the tables of version 2")
}
