package copying_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
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
	if first.Resumed || first.Copied != first.Compared || first.Copied != 603 || first.Streams != uint64(len(streams)+1) {
		t.Errorf("result %+v", first)
	}
	for _, one := range held {
		if n := w.length(w.target, one.Name); uint64(n) != one.Events ||
			len(one.SHA256) != 64 { //nolint:gosec // not negative
			t.Errorf("%+v has %d events", one, n)
		}
	}
	if uint64(len(held)) != first.Streams {
		t.Errorf("heard of %d streams", len(held))
	}
	if !slices.Equal(w.order(w.source), w.order(w.target)) {
		t.Error("the global order differs")
	}
	for entry, err := range w.target.All(w.ctx, eventstore.Start) { // the time it was first recorded
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(entry.Stream, "$stats-") {
			continue
		}
		original, ok, err := w.source.Last(w.ctx, entry.Stream)
		if err != nil || !ok {
			t.Fatal(err)
		}
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
	if _, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{}); !errors.Is(err, copying.ErrForeign) {
		t.Errorf("error = %v, want foreign", err)
	}
	if n := w.length(w.target, "thing-1"); n != 1 {
		t.Errorf("the refused target has %d events", n)
	}
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
				if err != nil {
					t.Fatal(err)
				}
				copied = append(copied, entry)
			}
			change(&copied[2])
			w.target = nodetest.Start(t)
			w.put(w.target, "thing-1", eventstore.NoStream, copied)
			_, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{})
			var found *copying.Difference
			if !errors.As(err, &found) || found.What != name || found.Revision != 2 || found.Stream != "thing-1" {
				t.Errorf("error = %v", err)
			}
		})
	}
}
