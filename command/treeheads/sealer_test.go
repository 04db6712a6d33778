package treeheads_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestSealCoversLog(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	report := verify(t, l, heads)
	assert.True(t, report.OK() && report.Events == 43 && report.Heads == 4 && report.Elsewhere == 4 &&
		report.Unsealed == 1, "%+v", report)
	if more, err := sealer(l).Seal(t.Context(), by); len(more) > 0 || err != nil {
		t.Errorf("without news: %d heads, %v", len(more), err)
	}
	last, count, err := sealer(l).Last(t.Context())
	assert.True(t, err == nil && count == 4 && last.Size == heads[3].Size, "last: %+v of %d, %v", last, count, err)
}

// A process that starts goes on where the last one stopped, also if the last sealed events are gone since.
func TestSealResumes(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"all is there": false, "the last sealed event is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := sealed(t)
			last := l.headAt(3) - 1
			name := (*l)[last].Stream
			l.add(t, 5)
			if lost {
				revision := (*l)[last].Revision
				cut(l, name, fmt.Sprintf(`{"$tb":%d}`, revision+1))
				*l = without(*l, name, revision)
				l.number()
			}
			heads, err := sealer(l).Seal(t.Context(), by)
			must.True(t, err == nil && len(heads) == 1 && heads[0].Size == 43+1+5, "%+v, %v", heads, err)
			report := verify(t, l, heads)
			cuts := map[bool]uint64{true: 1}[lost]
			assert.True(t, report.Count == cuts && report.Elsewhere == 1, "%+v", report)
		})
	}
}

// Much is sealed by several heads.
func TestSealSplits(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 10_000 {
		at := uint64(i + 1)
		*l = append(*l, eventstore.Recorded{
			Stream:   "feed-0c000000-0000-4000-8000-000000000001",
			Revision: eventstore.Revision(i),
			Type:     "feed.revised.v1",
			Position: eventstore.Position{Commit: at, Prepare: at},
		})
	}
	heads, err := sealer(l).Seal(t.Context(), by)
	must.True(t, err == nil && len(heads) == 2 && heads[1].Size == 10_000, "%d heads, %v", len(heads), err)
	report := verify(t, l, nil)
	assert.True(t, report.OK() && report.Unsealed == 2, "%+v", report)
}

// without is a log of which a stream was scavenged up to a revision.
func without(events log, stream string, until eventstore.Revision) (left log) {
	for _, e := range events {
		if e.Stream != stream || e.Revision > until {
			left = append(left, e)
		}
	}
	return left
}

// idOf returns the id in the name of a stream.
func idOf(stream string) uuid.UUID {
	_, id, _ := strings.Cut(stream, "-")
	return uuid.MustParse(id)
}

// burst appends several events at once to a stream of their own.
func burst(t testing.TB, store eventstore.Store, count int) (stream string) {
	t.Helper()
	stream = eventstore.StreamName("feed", uuid.New())
	events := make([]eventstore.Proposed, count)
	for i := range events {
		events[i] = eventstore.Proposed{
			ID:       uuid.New(),
			Type:     "feed.revised.v1",
			Data:     fmt.Appendf(nil, `{"name":"Feed %d"}`, i),
			Metadata: []byte(`{"actor":"operator","schemaVersion":1}`),
		}
	}
	must.Get(store.Append(t.Context(), stream, eventstore.NoStream, events))(t)
	return stream
}

// verifyWhole verifies a server as "carillon audit verify" does, the store's own events included.
func verifyWhole(t testing.TB, store *esdb.Store, elsewhere []seal.Head) *treeheads.Report {
	t.Helper()
	return verifyAll(t, store, store.Events, elsewhere)
}

// The embedded node and servers like 23.10 and 25.0 are sealed while bursts of events arrive, verified with a stream
// that metadata shortens and a deleted one, and sealed further by a process that starts. An export proves.
func TestSealOnServers(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for name, start := range map[string]func(t *testing.T) *esdb.Store{
		"embedded": func(t *testing.T) *esdb.Store { t.Helper(); return nodetest.Start(t) },
		"23.10": func(t *testing.T) *esdb.Store {
			t.Helper()
			return nodetest.StartStrict(t, &stricttest.Strict{}, log)
		},
		"25.0": func(t *testing.T) *esdb.Store {
			t.Helper()
			return nodetest.StartStrict(t, &stricttest.Strict{Later: true}, log)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := start(t)
			var heads []seal.Head
			s, streams := sealer(store), []string(nil)
			for range 10 {
				var busy sync.WaitGroup
				busy.Go(func() { burst(t, store, 50) })
				streams = append(streams, burst(t, store, 4))
				more := must.Get(s.Seal(t.Context(), by))(t)
				busy.Wait()
				heads = append(heads, more...)
			}
			for stream, metadata := range map[string]string{
				streams[1]: `{"$tb":2}`, streams[2]: `{"$tb":9223372036854775807}`,
			} {
				must.Get(store.AppendEntries(t.Context(), "$$"+stream, eventstore.NoStream, []esdb.Entry{{
					JSON:     true,
					Recorded: eventstore.Recorded{ID: uuid.New(), Type: "$metadata", Data: []byte(metadata)},
				}}))(t)
			}
			streams = append(streams, burst(t, store, 4))
			more := must.Get(sealer(store).Seal(t.Context(), by))(t)
			heads = append(heads, more...)
			report := verifyWhole(t, store, heads)
			events := 10*54 + 4 + len(heads) - 1
			assert.True(t, report.Events == uint64(events) && report.Unsealed == 1 && report.Elsewhere == uint64(len(heads)) &&
				report.Count == 2 && report.Faults[0].Kind == treeheads.Cut && report.Faults[1].Kind == treeheads.Cut,
				"want %d events and two streams that were cut: %+v", events, report)
			// Hidden events are exported all the same, as long as they are there; those of an ended stream are not.
			for _, stream := range streams[:3] {
				var out bytes.Buffer
				wanted := treeheads.Wanted{ID: idOf(stream), Categories: []string{"feed", "source"}, Since: heads[0].Size}
				must.OK(t, sealer(store).Export(t.Context(), &out, wanted, nil))
				verified, err := seal.VerifyExport(&out, trusted, heads[:1])
				assert.True(t, err == nil && len(verified.Faults) == 0 && verified.Events == 4 && verified.Elsewhere == 1,
					"%+v, %v", verified, err)
				must.OK(t, store.Tombstone(t.Context(), stream))
				var gone *treeheads.GoneError
				err = sealer(store).Export(t.Context(), &out, wanted, nil)
				assert.True(t, errors.As(err, &gone) && gone.Events == 4, "after a tombstone: %v", err)
				wanted.Organization = uuid.New()
				assert.Is(t, sealer(store).Export(t.Context(), &out, wanted, nil), treeheads.ErrNothing,
					"after a tombstone, for an organization")
			}
		})
	}
}

// Processes that seal at once, while others append, record one sequence of heads. Each head that any of them returned
// fits the log.
func TestSealAtOnce(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	var (
		mu    sync.Mutex
		heads []seal.Head
		busy  sync.WaitGroup
	)
	for i := range 4 {
		s, ticks := sealer(store), noon
		s.Now = func() time.Time { ticks = ticks.Add(time.Duration(i+1) * time.Second); return ticks }
		busy.Go(func() {
			for range 15 {
				burst(t, store, 1)
				more, err := s.Seal(t.Context(), by)
				assert.OK(t, err)
				mu.Lock()
				heads = append(heads, more...)
				mu.Unlock()
			}
		})
	}
	busy.Wait()
	report := verifyWhole(t, store, heads)
	assert.True(t, report.OK() && report.Elsewhere == uint64(len(heads)) && report.Heads != 0 &&
		report.Heads <= uint64(len(heads)), "%d heads were returned: %+v", len(heads), report)
	if more, err := sealer(store).Seal(t.Context(), by); err != nil || len(more) > 0 {
		t.Errorf("left unsealed: %+v, %v", more, err)
	}
}
