package treeheads_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/treehead"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/must"
)

var (
	noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	own  = ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	evil = ed25519.NewKeyFromSeed([]byte(strings.Repeat("e", ed25519.SeedSize)))
	by   = eventstore.Metadata{Actor: "carillon"}
)

// log is an event store that a test can write into like an attacker with the disk in hands.
type log []eventstore.Recorded

func (l *log) Append(
	_ context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (done eventstore.Appended, err error) {
	if done.Revision = l.last(stream); done.Revision != expected {
		return done, &eventstore.WrongRevisionError{Stream: stream, Expected: expected}
	}
	for _, e := range events {
		done.Revision++
		at := uint64(len(*l) + 1)
		done.Position = eventstore.Position{Commit: at, Prepare: at}
		*l = append(*l, eventstore.Recorded{
			ID:       e.ID,
			Stream:   stream,
			Revision: done.Revision,
			Position: done.Position,
			Type:     e.Type,
			Data:     e.Data,
			Metadata: e.Metadata,
			Created:  noon.Add(time.Duration(at) * time.Second),
		})
	}
	return done, nil
}

func (l *log) Read(
	_ context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		for _, e := range *l {
			if e.Stream == stream && e.Revision >= from && !yield(e, nil) {
				return
			}
		}
	}
}

func (l *log) Subscribe(
	_ context.Context, after eventstore.Position, _ eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for _, e := range slices.Clone(*l) {
			if after.Before(e.Position) && !yield(eventstore.Message{Event: &e, Position: e.Position}, nil) {
				return
			}
		}
		yield(eventstore.Message{CaughtUp: true}, nil)
	}
}

func (l *log) Head(context.Context) (eventstore.Position, error) {
	if len(*l) == 0 {
		return eventstore.Start, nil
	}
	return (*l)[len(*l)-1].Position, nil
}

func (l *log) all(context.Context) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		for _, e := range *l {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// clone is a copy that may be changed. Events keep their bytes.
func (l *log) clone() *log {
	other := slices.Clone(*l)
	return &other
}

// number assigns positions to the events in the order that they have now.
func (l *log) number() {
	for i := range *l {
		at := uint64(i + 1)
		(*l)[i].Position = eventstore.Position{Commit: at, Prepare: at}
	}
}

// add appends events to streams of their own category, a few to each.
func (l *log) add(t testing.TB, count int) {
	t.Helper()
	for range count {
		n := len(*l)
		l.put(t, streamOf(n%7), eventstore.Proposed{
			ID:       uuid.NewSHA1(uuid.Nil, fmt.Append(nil, "event ", n)),
			Type:     "feed.revised.v1",
			Data:     fmt.Appendf(nil, `{"name":"Feed %d"}`, n),
			Metadata: []byte(`{"actor":"operator","schemaVersion":1}`),
		})
	}
}

// put appends an event to a stream, wherever that ends.
func (l *log) put(t testing.TB, stream string, event eventstore.Proposed) {
	t.Helper()
	must.Get(l.Append(t.Context(), stream, l.last(stream), []eventstore.Proposed{event}))(t)
}

// last returns the last revision of a stream.
func (l *log) last(stream string) eventstore.Revision {
	for _, e := range slices.Backward(*l) {
		if e.Stream == stream {
			return e.Revision
		}
	}
	return eventstore.NoStream
}

// streamOf names one of seven streams. The first two have one id.
func streamOf(k int) string {
	category, id := "feed", k
	if k == 1 {
		category, id = "source", 0
	}
	return eventstore.StreamName(category, uuid.NewSHA1(uuid.Nil, []byte{byte(id)}))
}

func sealer(l eventstore.Store) *treeheads.Sealer {
	return &treeheads.Sealer{Store: l, Key: own, Now: func() time.Time { return noon }}
}

// sealed is a log of some events with heads among them, and the heads as they were kept elsewhere.
func sealed(t testing.TB) (*log, []seal.Head) {
	t.Helper()
	l, heads := &log{}, []seal.Head(nil)
	s := sealer(l)
	for range 4 {
		l.add(t, 10)
		more := must.Get(s.Seal(t.Context(), by))(t)
		must.Equal(t, len(more), 1, "heads")
		heads = append(heads, more...)
	}
	return l, heads
}

func verify(t testing.TB, l *log, elsewhere []seal.Head) *treeheads.Report {
	t.Helper()
	return verifyAll(t, l, l.all, elsewhere)
}

func verifyAll(
	t testing.TB, store eventstore.Store, all func(context.Context) iter.Seq2[eventstore.Recorded, error],
	elsewhere []seal.Head,
) *treeheads.Report {
	t.Helper()
	v := treeheads.Verification{
		Store:     store,
		All:       all,
		Trusted:   trusted,
		Elsewhere: elsewhere,
	}
	return must.Get(v.Run(t.Context()))(t)
}

// headAt is the place of a head in the log.
func (l *log) headAt(number uint64) int {
	stream := treehead.Aggregate.Stream(treehead.StreamID(number))
	return slices.IndexFunc(*l, func(e eventstore.Recorded) bool { return e.Stream == stream })
}
