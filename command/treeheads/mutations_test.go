package treeheads_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/treehead"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// mutation changes a log, and says what must be found, and at which event or head.
type mutation struct {
	name   string
	change func(t *testing.T, l *log)
	kind   string
	index  uint64
}

// truncate writes metadata that hides the beginning of a stream.
func truncate(l *log, stream string, before uint64) {
	at := uint64(len(*l) + 1)
	*l = append(*l, eventstore.Recorded{
		Stream:   "$$" + stream,
		Type:     "$metadata",
		Data:     fmt.Appendf(nil, `{"$tb":%d}`, before),
		Position: eventstore.Position{Commit: at, Prepare: at},
	})
}

// Whatever is done to a log is found, and where.
func TestMutations(t *testing.T) {
	t.Parallel()
	original, heads := sealed(t)
	list := slices.Concat(changes(), cuts(), swaps(), additions(original), rewrites(), forgeries())
	if len(list) < 100 {
		t.Fatalf("%d mutations", len(list))
	}
	for _, m := range list {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			l := original.clone()
			m.change(t, l)
			l.number()
			report := verify(t, l, heads)
			if !slices.ContainsFunc(report.Faults, func(f treeheads.Fault) bool {
				return f.Kind == m.kind && f.Index == m.index
			}) {
				t.Errorf("not found as %s at %d: %+v", m.kind, m.index, report.Faults)
			}
			for _, f := range report.Faults {
				t.Log(f.Kind, f.Index, f.Stream, f.Revision, f.Text)
			}
		})
	}
}

// places are some events of the log: the first and the last ones, and heads among them.
var places = []int{0, 1, 9, 10, 11, 21, 30, 32, 42}

func changes() (list []mutation) {
	for field, change := range map[string]func(*eventstore.Recorded){
		"type":     func(e *eventstore.Recorded) { e.Type += "x" },
		"id":       func(e *eventstore.Recorded) { e.ID[0] ^= 1 },
		"data":     func(e *eventstore.Recorded) { e.Data = bytes.Replace(e.Data, []byte(`"`), []byte(` "`), 1) },
		"metadata": func(e *eventstore.Recorded) { e.Metadata = []byte(`{"actor":"somebody","schemaVersion":1}`) },
		"time":     func(e *eventstore.Recorded) { e.Created = e.Created.Add(time.Microsecond) },
	} {
		for _, at := range places {
			list = append(list, mutation{
				name:   fmt.Sprintf("%s of event %d", field, at),
				change: func(_ *testing.T, l *log) { change(&(*l)[at]) },
				kind:   treeheads.Changed,
				index:  uint64(at),
			})
		}
	}
	for _, at := range places { // an event that is in another stream is missing from its own
		list = append(list, mutation{
			name:   fmt.Sprintf("stream of event %d", at),
			change: func(_ *testing.T, l *log) { (*l)[at].Stream = "feed-" + uuid.Nil.String() },
			kind:   treeheads.Missing,
			index:  uint64(at),
		})
	}
	return list
}

func cuts() (list []mutation) {
	for _, at := range places {
		list = append(list, mutation{
			name:   fmt.Sprintf("event %d is cut", at),
			change: func(_ *testing.T, l *log) { *l = slices.Delete(*l, at, at+1) },
			kind:   treeheads.Missing,
			index:  uint64(at),
		})
	}
	for _, at := range []int{0, 5, 12, 33} {
		list = append(list, mutation{
			name:   fmt.Sprintf("5 events from %d on are cut", at),
			change: func(_ *testing.T, l *log) { *l = slices.Delete(*l, at, at+5) },
			kind:   treeheads.Missing,
			index:  uint64(at + 4),
		})
	}
	return append(list,
		mutation{
			name:   "the end is cut, head and all",
			change: func(_ *testing.T, l *log) { *l = (*l)[:l.headAt(3)-4] },
			kind:   treeheads.Rewritten,
			index:  39,
		},
		mutation{
			name:   "everything after a head is cut",
			change: func(_ *testing.T, l *log) { *l = (*l)[:l.headAt(1)+1] },
			kind:   treeheads.Rewritten,
			index:  22,
		},
		mutation{
			name:   "all is cut",
			change: func(_ *testing.T, l *log) { *l = nil },
			kind:   treeheads.Rewritten,
		},
		mutation{
			name: "more of a stream than its metadata says",
			change: func(_ *testing.T, l *log) {
				name := (*l)[0].Stream
				*l = without(*l, name, 1)
				truncate(l, name, 1)
			},
			kind:  treeheads.Missing,
			index: 7,
		})
}

func swaps() (list []mutation) {
	for _, at := range places {
		other := (at + 2) % 42
		list = append(list, mutation{
			name:   fmt.Sprintf("events %d and %d are swapped", at, other),
			change: func(_ *testing.T, l *log) { (*l)[at], (*l)[other] = (*l)[other], (*l)[at] },
			kind:   treeheads.Moved,
			index:  uint64(min(at, other)),
		})
	}
	return list
}

func additions(original *log) (list []mutation) {
	for _, at := range places {
		forged := (*original)[0]
		forged.Stream, forged.ID = "feed-"+uuid.Nil.String(), uuid.Nil
		list = append(list, mutation{
			name:   fmt.Sprintf("an event is added before %d", at),
			change: func(_ *testing.T, l *log) { *l = slices.Insert(*l, at, forged) },
			kind:   treeheads.Added,
			index:  uint64(at),
		})
	}
	return list
}

// rewrites make another log with valid heads of its own.
func rewrites() (list []mutation) {
	for from := range uint64(4) {
		list = append(list, mutation{
			name: fmt.Sprintf("all from head %d on is written again and signed by the same key", from),
			change: func(t *testing.T, l *log) {
				t.Helper()
				end := 0
				if from > 0 {
					end = l.headAt(from-1) + 1
				}
				*l = (*l)[:end:end]
				for range 4 - from {
					l.add(t, 10)
					(*l)[len(*l)-1].Data = []byte(`{"name":"Forged"}`)
					if _, err := sealer(l).Seal(t.Context(), by); err != nil {
						t.Fatal(err)
					}
				}
			},
			kind:  treeheads.Rewritten,
			index: []uint64{0, 10, 21, 32}[from],
		})
	}
	return append(list, mutation{
		name: "all is written again and signed by another key",
		change: func(t *testing.T, l *log) {
			t.Helper()
			*l = nil
			l.add(t, 44)
			s := sealer(l)
			s.Key = evil
			if _, err := s.Seal(t.Context(), by); err != nil {
				t.Fatal(err)
			}
		},
		kind: treeheads.HeadFault,
	})
}

// forgeries change heads.
func forgeries() (list []mutation) {
	for field, change := range map[string]func(*treehead.Signed){
		"number":    func(e *treehead.Signed) { e.Number++ },
		"size":      func(e *treehead.Signed) { e.Size++ },
		"root":      func(e *treehead.Signed) { e.Root[0] ^= 1 },
		"time":      func(e *treehead.Signed) { e.At = e.At.Add(time.Hour) },
		"key":       func(e *treehead.Signed) { e.Key = evil[32:] },
		"signature": func(e *treehead.Signed) { e.Signature[0] ^= 1 },
		"leaves":    func(e *treehead.Signed) { e.Leaves[0] ^= 1 },
		"all, signed by another key": func(e *treehead.Signed) {
			tree, err := seal.ResumeTree(e.Size, e.Nodes)
			if err != nil {
				panic(err)
			}
			head := seal.Sign(tree, e.Leaves, e.At, evil)
			e.Key, e.Signature = head.Key, head.Signature
		},
	} {
		for _, number := range []uint64{0, 3} {
			list = append(list, mutation{
				name: fmt.Sprintf("%s of head %d", field, number),
				change: func(t *testing.T, l *log) {
					t.Helper()
					stored := &(*l)[l.headAt(number)]
					event, err := treehead.Events.Decode(stored)
					if err != nil {
						t.Fatal(err)
					}
					head := event.(treehead.Signed)
					change(&head)
					if _, stored.Data, err = treehead.Events.Encode(head); err != nil {
						t.Fatal(err)
					}
				},
				kind:  treeheads.HeadFault,
				index: number,
			})
		}
	}
	return append(list, mutation{
		name:   "head 1 is cut",
		change: func(_ *testing.T, l *log) { at := l.headAt(1); *l = slices.Delete(*l, at, at+1) },
		kind:   treeheads.HeadFault,
		index:  1,
	})
}

// A stream that was truncated, and scavenged, is no fault: its leaves are kept, and the report names it.
func TestTruncatedStream(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	name := (*l)[0].Stream
	truncate(l, name, 3)
	*l = without(*l, name, 2)
	l.number()
	report := verify(t, l, heads)
	want := []treeheads.Shortened{{Stream: name, Setting: "$tb 3", Removed: 3}}
	if !report.OK() || report.Removed != 3 || report.Events != 40 || !slices.Equal(report.Shortened, want) {
		t.Errorf("%+v", report)
	}
}

// A forged head among those that were kept elsewhere is named, and says nothing about the log.
func TestForgedHeadElsewhere(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	heads[1].Size--
	report := verify(t, l, heads)
	if report.Count != 1 || report.Faults[0].Kind != treeheads.HeadFault || report.Elsewhere != 3 {
		t.Errorf("%+v", report)
	}
}
