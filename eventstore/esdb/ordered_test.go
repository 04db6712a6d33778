package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// cut breaks all connections to a member.
func (m *member) cut() {
	m.mu.Lock()
	conns := make([]func() error, 0, len(m.conns))
	for conn := range m.conns {
		conns = append(conns, conn.Close)
	}
	m.mu.Unlock()
	for _, end := range conns {
		_ = end()
	}
}

func oneEvent() []esdb.Entry {
	happened := eventstore.Recorded{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte(`{}`)}
	return []esdb.Entry{{JSON: true, Recorded: happened}}
}

// single returns an append of one event.
func single(stream string, expected eventstore.Revision, id uuid.UUID) *esdb.Ordered {
	one := &esdb.Ordered{Stream: stream, Expected: expected, Entries: oneEvent()}
	one.Entries[0].ID = id
	return one
}

// orderOf lists the ids of what users have stored, as it stands in the log.
func orderOf(ctx context.Context, t *testing.T, store *esdb.Store) (ids []uuid.UUID) {
	t.Helper()
	for entry, err := range store.All(ctx, eventstore.Start) {
		must.OK(t, err)
		if !strings.HasPrefix(entry.Stream, "$") {
			ids = append(ids, entry.ID)
		}
	}
	return ids
}

// Whatever happens on the way, appends stand in the log in the order in which they were given, each once.
func TestOrderedAppendsStandInTheirOrder(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(m *member){
		"nothing happens":                 func(*member) {},
		"connections break":               (*member).cut,
		"answers are lost":                func(m *member) { m.LoseAnswers(3) },
		"no leader for a while":           func(m *member) { m.LoseLeader(300 * time.Millisecond) },
		"a server that takes no batches":  func(m *member) { m.SaysBatches = true },
		"one without batches, that fails": func(m *member) { m.LoseLeader(100 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, func(t *testing.T, c *cluster) {
				m := c.start()
				m.NoBatches = strings.Contains(name, "batches")
				m.SaysBatches = strings.Contains(name, "takes")
				inOrder(t, c, m, trouble)
			})
		})
	}
}

func inOrder(t *testing.T, c *cluster, m *member, trouble func(*member)) {
	t.Helper()
	const appends, streams = 1200, 40
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	store := c.open("esdb://" + m.address + "?tls=false")
	var want []uuid.UUID
	answered := 0
	must.OK(t, store.Patient(time.Minute).AppendInOrder(ctx, 64, func(yield func(*esdb.Ordered) bool) {
		for i := range appends {
			want = append(want, uuid.New())
			one := single(fmt.Sprintf("thing-%d", i%streams), eventstore.Revision(i/streams-1), want[i])
			one.Appended = func() { answered++ }
			if !yield(one) {
				return
			}
			if i%300 == 150 && !m.SaysBatches {
				trouble(m)
			}
			if i%300 == 250 {
				if !yield(nil) || answered != i+1 {
					t.Errorf("%d of %d answered", answered, i+1)
					return
				}
			}
		}
	}))
	if got := orderOf(ctx, t, store); answered != appends || !slices.Equal(got, want) {
		t.Errorf("%d answers, %d events in the log, want %d in their order", answered, len(got), appends)
	}
}

// The first append that is refused ends the sequence, and the error names its stream.
func TestOrderedAppendsEndWithTheFirstRefusal(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]struct {
		expected eventstore.Revision
		change   func(*esdb.Entry)
		want     error
	}{
		"wrong revision": {expected: 7, change: func(*esdb.Entry) {}, want: eventstore.ErrWrongRevision},
		"too large": {
			expected: -1,
			change:   func(e *esdb.Entry) { e.Data = make([]byte, 1<<20+1) },
			want:     eventstore.ErrTooLarge,
		},
		"no text": {expected: -1, change: func(e *esdb.Entry) { e.Type = "\xff" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := nodetest.StartStrict(t, &stricttest.Strict{}, slog.New(slog.DiscardHandler))
			answered, given := 0, 0
			err := store.Patient(time.Minute).AppendInOrder(t.Context(), 8, func(yield func(*esdb.Ordered) bool) {
				for i := range 100 {
					one := single(fmt.Sprintf("thing-%d", i), eventstore.NoStream, uuid.New())
					one.Appended = func() { answered++ }
					if i == 20 {
						one.Expected = refused.expected
						refused.change(&one.Entries[0])
					}
					if given++; !yield(one) {
						return
					}
				}
			})
			mistaken := refused.want != nil && !errors.Is(err, refused.want)
			assert.True(t, err != nil && !mistaken && answered >= 12 && answered <= 20 && given != 100,
				"error = %v after %d answers to %d", err, answered, given)
			assert.True(t, err == nil || strings.Contains(err.Error(), "thing-20"), "error %q does not name the stream", err)
		})
	}
}

// A server that stays away is given up in the end.
func TestOrderedAppendsGiveUp(t *testing.T) {
	t.Parallel()
	inCluster(t, func(t *testing.T, c *cluster) {
		m := c.start()
		store := c.open("esdb://" + m.address + "?tls=false")
		answered := 0
		err := store.Patient(time.Second).AppendInOrder(t.Context(), 8, func(yield func(*esdb.Ordered) bool) {
			for i := range 2 {
				one := single(fmt.Sprintf("thing-%d", i), eventstore.NoStream, uuid.New())
				one.Appended = func() { answered++ }
				if !yield(one) || !yield(nil) {
					return
				}
				m.LoseLeader(time.Hour)
			}
		})
		assert.True(t, errors.Is(err, eventstore.ErrUnavailable) && answered == 1,
			"error = %v after %d answers", err, answered)
	})
}

// The last revision of a stream is reported, whichever of its events can be read.
func TestLastRevision(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"plain": nil, "23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, ctx := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), t.Context()
			put := func(stream string, expected eventstore.Revision, entries []esdb.Entry) {
				t.Helper()
				must.Get(store.AppendEntries(ctx, stream, expected, entries))(t)
			}
			metadata := func(stream, data string) {
				t.Helper()
				list := oneEvent()
				list[0].Type, list[0].Data = "$metadata", []byte(data)
				put("$$"+stream, eventstore.NoStream, list)
			}
			want := map[string]eventstore.Revision{"thing-none": eventstore.NoStream}
			for stream, data := range map[string]string{
				"thing-plain":   "",
				"thing-hidden":  `{"$tb":3}`,
				"thing-trimmed": `{"$maxCount":1}`,
				"thing-deleted": `{"$tb":9223372036854775807}`,
			} {
				for revision := range eventstore.Revision(3) {
					put(stream, revision-1, oneEvent())
				}
				want[stream] = 2
				if data != "" {
					metadata(stream, data)
					want["$$"+stream] = 0
				}
			}
			metadata("thing-described", `{"$maxCount":1}`)
			want["thing-described"] = eventstore.NoStream
			for stream, last := range want {
				assert.Equal(t, must.Get(store.LastRevision(ctx, stream))(t), last, "%s", stream)
			}
			must.OK(t, store.Tombstone(ctx, "thing-plain"))
			assert.Is(t, assert.Err(store.LastRevision(ctx, "thing-plain")), eventstore.ErrStreamDeleted, "a tombstoned stream")
			head, err := store.Head(ctx)
			assert.True(t, err == nil && head != eventstore.Start, "%s, %v", head, err)
			assert.Equal(t, len(orderOf(ctx, t, store)), 13, "events in the log: asking has left something")
		})
	}
}

// The log holds the first part of ordered appends that were interrupted, at any time.
func TestInterruptedAppendsAreAPrefix(t *testing.T) {
	t.Parallel()
	const appends = 300
	store := nodetest.Start(t)
	var given []uuid.UUID
	for round := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		ids, answered := make([]uuid.UUID, 0, appends), 0
		err := store.Patient(time.Minute).AppendInOrder(ctx, 0, func(yield func(*esdb.Ordered) bool) {
			for i := range appends {
				ids = append(ids, uuid.New())
				one := single(fmt.Sprintf("thing-%d-%d", round, i), eventstore.NoStream, ids[i])
				one.Appended = func() { answered++ }
				if !yield(one) {
					return
				}
				if answered >= 2*round {
					cancel() // with others on their way
				}
			}
		})
		must.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
		cancel()
		found := map[uuid.UUID]bool{}
		for _, id := range orderOf(t.Context(), t, store) {
			found[id] = true
		}
		for i, id := range ids {
			if i > 0 && found[id] && !found[ids[i-1]] {
				t.Fatalf("round %d: append %d took place, the one before it did not", round, i)
			}
		}
		given = append(given, ids...)
	}
	if found := len(orderOf(t.Context(), t, store)); found == 0 || found == len(given) {
		t.Errorf("%d of %d took place: nothing was interrupted", found, len(given))
	}
}

// If the leader freezes, the rest is appended at its successor, in order.
func TestOrderedAppendsLeaveAFrozenLeader(t *testing.T) {
	t.Parallel()
	inCluster(t, leavesFrozen)
}

func leavesFrozen(t *testing.T, c *cluster) {
	t.Helper()
	first, second, third := c.start(), c.start(), c.start()
	second.Follow(first.address)
	third.Follow(first.address)
	store := c.open(fmt.Sprintf("esdb://%s,%s,%s?tls=false", first.address, second.address, third.address))
	var given []uuid.UUID
	if err := store.Patient(time.Minute).AppendInOrder(t.Context(), 32, func(yield func(*esdb.Ordered) bool) {
		for i := range 400 {
			if i == 200 {
				first.frozen.Store(true)
				second.Follow("")
				third.Follow(second.address)
			}
			// Each has a separate stream, as the second has no events of the first: they only play a cluster.
			given = append(given, uuid.New())
			if !yield(single(fmt.Sprintf("thing-%d", i), eventstore.NoStream, given[i])) {
				return
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	moved := orderOf(t.Context(), t, c.open("esdb://"+second.address+"?tls=false"))
	assert.True(t, len(moved) >= 200 && len(moved) <= 232 && slices.Equal(moved, given[400-len(moved):]),
		"%d events at the new leader, or another order", len(moved))
}
