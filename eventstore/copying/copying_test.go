package copying_test

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestCopy_hasAllInOrder(t *testing.T) {
	w := newWorld(t)
	var streams []string
	next := map[string]eventstore.Revision{}
	for i := range 300 {
		stream := fmt.Sprintf("thing-%d", i*i%40)
		if _, known := next[stream]; !known {
			streams, next[stream] = append(streams, stream), eventstore.NoStream
		}
		list := entries(1 + i%3)
		switch last := &list[len(list)-1]; i % 5 {
		case 0:
			last.JSON, last.Data, last.Metadata = false, []byte{0, 1, 2, 0xff}, nil
		case 1:
			last.Metadata = []byte{0xfe, 0xff} // no JSON: it can't say when the event was recorded
		case 2:
			last.Metadata = []byte(` { } `)
		}
		w.put(w.source, stream, next[stream], list)
		next[stream] += eventstore.Revision(len(list))
	}
	large := entries(3)
	for i := range large {
		large[i].Data = fmt.Appendf(nil, `"%0*d"`, 300<<10, i) // more than an append takes
		w.put(w.source, "thing-large", eventstore.Revision(i-1), large[i:i+1])
	}
	var held []copying.Stream
	first := w.copy(copying.Options{Streams: func(s []copying.Stream) { held = s }})
	assert.True(t, !first.Resumed && first.Copied == first.Compared && first.Copied == 603 &&
		first.Streams == uint64(len(streams)+1), "result %+v", first)
	for _, one := range held {
		if n := w.length(w.target, one.Name); uint64(n) != one.Events ||
			len(one.SHA256) != 64 { //nolint:gosec // not negative
			t.Errorf("%+v has %d events", one, n)
		}
	}
	assert.Equal(t, uint64(len(held)), first.Streams, "heard of %d streams", len(held))
	assert.Slices(t, w.order(w.source), w.order(w.target), "the global order differs")
	for entry, err := range w.target.All(w.ctx, eventstore.Start) { // the time it was first recorded
		must.OK(t, err)
		if strings.HasPrefix(entry.Stream, "$stats-") {
			continue
		}
		original, ok, err := w.source.Last(w.ctx, entry.Stream)
		must.True(t, err == nil && ok, "%v", err)
		if entry.ID == original.ID && len(original.Metadata) != 2 && !entry.Created.Equal(original.Created) {
			t.Errorf("%s was created at %s, now at %s", entry.ID, original.Created, entry.Created)
		}
	}
	if again := w.copy(copying.Options{}); !again.Resumed || again.Copied != 0 || again.Digest != first.Digest {
		t.Errorf("a second run: %+v after %+v", again, first)
	}
	w.put(w.source, streams[0], next[streams[0]], entries(2))
	w.put(w.source, "thing-new", eventstore.NoStream, entries(1))
	if more := w.copy(copying.Options{CopyOnly: true}); more.Copied != 3 || more.Compared != 0 {
		t.Errorf("later events: %+v", more)
	}
	if more := w.copy(copying.Options{}); more.Copied != 0 || more.Compared != first.Compared+3 {
		t.Errorf("compared after that: %+v", more)
	}
}

func TestCopy_refusesForeignTarget(t *testing.T) {
	w := newWorld(t)
	list := entries(3)
	w.put(w.source, "thing-1", eventstore.NoStream, list)
	w.put(w.target, "thing-1", eventstore.NoStream, entries(1))
	assert.Is(t, assert.Err(copying.Copy(w.ctx, w.source, w.target, copying.Options{})), copying.ErrForeign, "error")
	assert.Equal(t, w.length(w.target, "thing-1"), 1, "the refused target … events")
}

func TestCopy_findsDifference(t *testing.T) {
	for name, change := range map[string]func(*esdb.Entry){
		"its data":                        func(e *esdb.Entry) { e.Data = []byte(`{"n":7}`) },
		"its metadata":                    func(e *esdb.Entry) { e.Metadata = []byte(`{"actor":"mallory"}`) },
		"type thing.happened.v1 became x": func(e *esdb.Entry) { e.Type = "x" },
		"the content type of its data":    func(e *esdb.Entry) { e.JSON = false },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			list := entries(4)
			w.put(w.source, "thing-1", eventstore.NoStream, list)
			w.copy(copying.Options{})
			var copied []esdb.Entry
			for entry, err := range w.target.All(w.ctx, eventstore.Start) {
				must.OK(t, err)
				copied = append(copied, entry)
			}
			change(&copied[2])
			w.target = nodetest.Start(t)
			w.put(w.target, "thing-1", eventstore.NoStream, copied)
			_, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{})
			var found *copying.Difference
			assert.True(t, errors.As(err, &found) && found.What == name && found.Revision == 2 && found.Stream == "thing-1",
				"error = %v", err)
		})
	}
}

// An event that comes to the target alone while it is compared is found too.
func TestCopy_findsLateEvent(t *testing.T) {
	w := newWorld(t)
	w.put(w.source, "thing-1", eventstore.NoStream, entries(2))
	once := sync.OnceFunc(func() { w.put(w.target, "thing-1", 1, entries(1)) })
	_, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{Report: func(p copying.Progress) {
		if p.Phase == copying.PhaseCopy && p.Events == 2 {
			once()
		}
	}})
	var found *copying.Difference
	assert.True(t, errors.As(err, &found) && found.What == "only the target has it" && found.Revision == 2, "%v", err)
}

var softDeleted = fmt.Sprintf(`{"$tb":%d}`, math.MaxInt64)

// The next revision of each stream is the same in a copy, whatever the source has deleted, so that a subscriber that
// resumes after its last one misses nothing. The same holds from the copy back to the source.
func TestLastRevisionsCarryOver(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, from string) {
		streams := map[string]eventstore.Revision{
			"deleted":   9,
			"truncated": 9,
			"trimmed":   9,
			"long":      4999,
			"plain":     9,
			"revived":   12,
			"empty":     eventstore.NoStream,
		}
		for stream, last := range streams {
			if last >= 0 && stream != "revived" {
				w.put(w.source, stream, eventstore.NoStream, entries(int(last)+1))
			}
		}
		w.put(w.source, "ended", eventstore.NoStream, entries(10))
		w.put(w.source, "revived", eventstore.NoStream, entries(10))
		w.describe("revived", eventstore.NoStream, softDeleted)
		w.put(w.source, "revived", 9, entries(3))
		w.describe("deleted", eventstore.NoStream, softDeleted)
		w.describe("truncated", eventstore.NoStream, `{"$tb":10,"mine":true}`)
		w.describe("trimmed", eventstore.NoStream, `{"$maxCount":3}`)
		w.describe("long", eventstore.NoStream, `{"$maxCount":2}`)
		w.describe("empty", eventstore.NoStream, `{"mine":true}`)
		must.OK(w, w.source.Tombstone(w.ctx, "ended"))
		w.scavenge(w.node)
		for _, way := range []string{"there", "back"} {
			var held []copying.Stream
			result := w.copy(copying.Options{Streams: func(s []copying.Stream) { held = s }})
			if result.Filled != 10+10+7+4998+10 {
				w.Errorf("%s: %d revisions were filled: %+v", way, result.Filled, result)
			}
			reported := map[string]eventstore.Revision{}
			for _, one := range held {
				reported[one.Name] = one.Last
			}
			for stream, want := range streams {
				if got, err := w.target.LastRevision(w.ctx, stream); err != nil || got != want {
					w.Errorf("%s: the last revision of %s is %d, %v, want %d", way, stream, got, err, want)
				}
				if want >= 0 && reported[stream] != want {
					w.Errorf("%s: %s was reported at %d", way, stream, reported[stream])
				}
				w.sameStream(stream)
			}
			if _, err := w.target.LastRevision(w.ctx, "ended"); !errors.Is(err, eventstore.ErrStreamDeleted) {
				w.Errorf("%s: the tombstoned stream: %v", way, err)
			}
			if again := w.copy(copying.Options{}); again.Copied+again.Filled+again.Metadata != 0 ||
				again.Digest != result.Digest {
				w.Errorf("%s: a second run: %+v after %+v", way, again, result)
			}
			w.noFillers(w.target)
			w.scavenge(w.targets)
			w.onwards(kinds[from]())
		}
		// Later events follow those that subscribers have seen; the last copy is the source now.
		for stream, last := range streams {
			w.put(w.source, stream, last, entries(1))
			for recorded, err := range w.source.Read(w.ctx, stream, last+1) {
				if err != nil || recorded.Revision != last+1 {
					w.Errorf("%s: revision %d follows %d, %v", stream, recorded.Revision, last, err)
				}
			}
		}
	})
}

// Events that fill the places of lost ones stay hidden when the source's metadata doesn't hide them any more.
func TestFillersStayHidden(t *testing.T) {
	w := newWorldOf(t, nil, nil)
	w.put(w.source, "thing-1", eventstore.NoStream, entries(3))
	w.describe("thing-1", eventstore.NoStream, softDeleted)
	w.scavenge(w.node)
	w.copy(copying.Options{})
	w.describe("thing-1", 0, `{"mine":true}`)
	var described copying.Progress
	result := w.copy(copying.Options{Report: func(p copying.Progress) {
		if p.Phase == copying.PhaseDescribe {
			described = p
		}
	}})
	assert.True(t, result.Metadata == 1 && described.Done == 1 && described.Total == 1, "%+v, %+v", result, described)
	set, _, err := w.target.Last(w.ctx, "$$thing-1")
	must.OK(t, err)
	assert.Equal(t, string(set.Data), `{"$tb":3,"carillonCopiedFrom":3,"mine":true}`, "the target's metadata")
}

// noFillers subscribes to everything: events that fill the places of lost ones are no news.
func (w *world) noFillers(store *esdb.Store) {
	w.Helper()
	for message, err := range store.Subscribe(w.ctx, eventstore.Start, eventstore.Filter{}) {
		switch {
		case err != nil:
			w.Fatal(err)
		case message.CaughtUp:
			return
		case message.Event != nil && message.Event.Type == eventstore.Filler:
			w.Errorf("a subscriber gets %s at revision %d of %s", message.Event.Type, message.Event.Revision,
				message.Event.Stream)
		}
	}
}

// A target whose stream goes on at another revision than the source's is no copy.
func TestAnotherLastRevisionIsADifference(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, _ string) {
		w.put(w.source, "deleted", eventstore.NoStream, entries(10))
		w.describe("deleted", eventstore.NoStream, softDeleted)
		w.put(w.source, "plain", eventstore.NoStream, entries(1))
		w.scavenge(w.node)
		w.copy(copying.Options{})
		w.put(w.target, "deleted", 9, entries(1))
		_, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{})
		var found *copying.Difference
		if !errors.As(err, &found) || found.Stream != "deleted" ||
			!strings.Contains(found.What, "last revision 9 became 10") {
			w.Errorf("error = %v", err)
		}
	})
}

// Events that the source loses after they were copied are no difference, and later ones are copied to their places.
func TestEventsLostBetweenRuns(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, _ string) {
		for _, stream := range []string{"deleted", "trimmed"} {
			w.put(w.source, stream, eventstore.NoStream, entries(5))
		}
		w.copy(copying.Options{CopyOnly: true})
		for _, stream := range []string{"deleted", "trimmed"} {
			w.put(w.source, stream, 4, entries(5))
		}
		w.describe("deleted", eventstore.NoStream, softDeleted)
		w.describe("trimmed", eventstore.NoStream, `{"$maxCount":1}`)
		w.scavenge(w.node)
		w.copy(copying.Options{CopyOnly: true})
		w.copy(copying.Options{})
		w.put(w.source, "deleted", 9, entries(2))
		w.put(w.source, "trimmed", 9, entries(2))
		w.copy(copying.Options{})
		for stream, want := range map[string]int{"deleted": 2, "trimmed": 1} {
			if got := w.sameStream(stream); got != want {
				w.Errorf("%s has %d events, want %d", stream, got, want)
			}
			if got, err := w.target.LastRevision(w.ctx, stream); err != nil || got != 11 {
				w.Errorf("the last revision of %s is %d, %v", stream, got, err)
			}
		}
	})
}

// Streams of the store itself, and others whose names begin like those, are counted and named.
func TestOmittedEventsAreNamed(t *testing.T) {
	w := newWorldOf(t, nil, nil)
	w.put(w.source, "thing-1", eventstore.NoStream, entries(2))
	w.put(w.source, "$mine", eventstore.NoStream, entries(3))
	w.put(w.source, "$ce-thing", eventstore.NoStream, entries(1))
	w.describe("$mine", eventstore.NoStream, `{"$maxCount":10}`)
	w.describe("thing-1", eventstore.NoStream, `{"$maxCount":10}`)
	want := []copying.LeftOut{{Stream: "$$$mine", Events: 1}, {Stream: "$ce-thing", Events: 1}, {
		Stream: "$mine",
		Events: 3,
	}}
	for _, options := range []copying.Options{{CopyOnly: true}, {}, {}} {
		if got := w.copy(options).LeftOut; fmt.Sprint(got) != fmt.Sprint(want) {
			w.Errorf("left out %+v, want %+v", got, want)
		}
	}
}

// Events near what servers take at most are copied, and back. No room for the time of their recording is no reason to
// lose them.
func TestLargestEventsAreCopied(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, from string) {
		if !strings.Contains(w.Name(), "25.0") { // the data alone counts
			for i, size := range []int{1 << 20, 900_000} {
				list := entries(1)
				list[0].Data, list[0].Metadata = fmt.Appendf(nil, `"%0*d"`, size-2, i), fmt.Appendf(nil, `{"x":"%0*d"}`, size, i)
				w.put(w.source, fmt.Sprintf("thing-larger-%d", i), eventstore.NoStream, list)
			}
		}
		const most, eventType, metadata = 1 << 20, "thing.happened.v1", `{"actor":"test"}`
		for i, below := range []int{0, 60, 1000} {
			for j, meta := range []string{metadata, ""} {
				list := entries(1)
				list[0].Metadata = []byte(meta)
				list[0].Data = fmt.Appendf(nil, `"%0*d"`, most-below-2*len(eventType)-len(meta)-2, i)
				w.put(w.source, fmt.Sprintf("thing-%d-%d", i, j), eventstore.NoStream, list)
			}
		}
		there := w.copy(copying.Options{})
		w.onwards(kinds[from]())
		if back := w.copy(copying.Options{}); there.Copied < 6 || back.Copied != there.Copied ||
			back.Compared != there.Copied || back.Digest != there.Digest {
			w.Errorf("there %+v, back %+v", there, back)
		}
	})
}

// A server that scavenges file by file may have lost events from the middle of a stream. The rest before them is
// hidden, and copied all the same.
func TestStreamWithoutItsMiddle(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, _ string) {
		list := entries(20)
		for i := 5; i < 10; i++ {
			list[i].Type = eventstore.Filler // lost, as far as a copy is concerned
		}
		w.put(w.source, "thing-1", eventstore.NoStream, list)
		w.describe("thing-1", eventstore.NoStream, `{"$tb":12,"mine":true}`)
		if result := w.copy(copying.Options{}); result.Copied != 15 || result.Filled != 5 || result.Compared != 15 {
			w.Errorf("%+v", result)
		}
		if n := w.sameStream("thing-1"); n != 8 {
			w.Errorf("%d events can be read", n)
		}
	})
}

// BenchmarkCopy copies streams of two events of 500 bytes, embedded node to embedded node, whose disk is synced. The
// events of a stream lie apart in the log, so each is a separate append: the worst case. "one by one" is the former
// method; "compared" is all work of the command.
func BenchmarkCopy(b *testing.B) {
	const streams = 10_000
	source := nodetest.Start(b)
	for revision := range 2 {
		writeEach(b, source, streams, revision)
	}
	for _, way := range []struct {
		name    string
		options copying.Options
	}{
		{"one by one", copying.Options{CopyOnly: true, Window: 1}},
		{"ordered", copying.Options{CopyOnly: true}},
		{"compared", copying.Options{}},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				target, stop := onDisk(b)
				b.StartTimer()
				result, err := copying.Copy(b.Context(), source, target, way.options)
				b.StopTimer()
				must.True(b, err == nil && result.Copied == 2*streams, "%+v, %v", result, err)
				stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(2*streams*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// writeEach appends an event to each of many streams.
func writeEach(b *testing.B, to *esdb.Store, streams, revision int) {
	b.Helper()
	must.OK(b, to.AppendInOrder(b.Context(), 0, func(yield func(*esdb.Ordered) bool) {
		for i := range streams {
			list := entries(1)
			list[0].Data = fmt.Appendf(nil, `"%0500d"`, i)
			stream, expected := fmt.Sprintf("thing-%d", i), eventstore.Revision(revision-1)
			if !yield(&esdb.Ordered{Stream: stream, Expected: expected, Entries: list}) {
				return
			}
		}
	}))
}

func onDisk(b *testing.B) (store *esdb.Store, stop func()) {
	b.Helper()
	socket := nodetest.SocketDir(b) + "/s"
	stopNode := nodetest.Serve(b, b.TempDir(), socket)
	store = must.Get(esdb.OpenUnix(socket, slog.New(slog.DiscardHandler)))(b)
	return store, func() {
		assert.OK(b, store.Close())
		stopNode()
	}
}
