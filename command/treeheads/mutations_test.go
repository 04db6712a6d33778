package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/retirement"
	"carillon/aggregates/treehead"
	"carillon/command/retire"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// mutation changes a log, and says what must be found, and at which event or head.
type mutation struct {
	name   string
	change func(t *testing.T, l *log)
	kind   string
	index  uint64
}

// mutationOf is a mutation that needs no test.
func mutationOf(name, kind string, index int, change func(l *log)) mutation {
	return mutation{
		name:   name,
		change: func(_ *testing.T, l *log) { change(l) },
		kind:   kind,
		index:  uint64(index), //nolint:gosec // not negative
	}
}

// cut writes the metadata of a stream, or a tombstone.
func cut(l *log, stream, metadata string) {
	at := uint64(len(*l) + 1)
	e := eventstore.Recorded{
		Stream:   "$$" + stream,
		Type:     "$metadata",
		Data:     []byte(metadata),
		Position: eventstore.Position{Commit: at, Prepare: at},
	}
	if metadata == "" {
		e.Stream, e.Type, e.Revision = stream, "$streamDeleted", 1<<63-1
	}
	*l = append(*l, e)
}

// Whatever is done to a log is found, and where.
func TestMutations(t *testing.T) {
	t.Parallel()
	original, heads := sealed(t)
	list := slices.Concat(changes(), cuts(), swaps(), additions(original), rewrites(), forgeries(), cutting())
	must.True(t, len(list) >= 100, "%d mutations", len(list))
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
		"metadata": func(e *eventstore.Recorded) { e.Metadata = []byte(`{"actor":"another","schemaVersion":1}`) },
		"time":     func(e *eventstore.Recorded) { e.Created = e.Created.Add(time.Microsecond) },
	} {
		for _, at := range places {
			list = append(list, mutationOf(fmt.Sprintf("%s of event %d", field, at), treeheads.Changed, at,
				func(l *log) { change(&(*l)[at]) }))
		}
	}
	for _, at := range places { // an event that is in another stream is missing from its own
		list = append(list, mutationOf(fmt.Sprintf("stream of event %d", at), treeheads.Missing, at,
			func(l *log) { (*l)[at].Stream = "feed-" + uuid.Nil.String() }))
	}
	return list
}

func cuts() (list []mutation) {
	for _, at := range places {
		list = append(list, mutationOf(fmt.Sprintf("event %d is cut", at), treeheads.Missing, at,
			func(l *log) { *l = slices.Delete(*l, at, at+1) }))
	}
	for _, at := range []int{0, 5, 12, 33} {
		list = append(list, mutationOf(fmt.Sprintf("5 events from %d on are cut", at), treeheads.Missing, at+4,
			func(l *log) { *l = slices.Delete(*l, at, at+5) }))
	}
	return append(list,
		mutationOf("the end is cut, head and all", treeheads.Rewritten, 39,
			func(l *log) { *l = (*l)[:l.headAt(3)-4] }),
		mutationOf("everything after a head is cut", treeheads.Rewritten, 22,
			func(l *log) { *l = (*l)[:l.headAt(1)+1] }),
		mutationOf("all is cut", treeheads.Rewritten, 0, func(l *log) { *l = nil }),
		mutationOf("more of a stream than its metadata says", treeheads.Missing, 7, func(l *log) {
			name := (*l)[0].Stream
			*l = without(*l, name, 1)
			cut(l, name, `{"$tb":1}`)
		}))
}

func swaps() (list []mutation) {
	for _, at := range places {
		other := (at + 2) % 42
		name := fmt.Sprintf("events %d and %d are swapped", at, other)
		list = append(list, mutationOf(name, treeheads.Moved, min(at, other),
			func(l *log) { (*l)[at], (*l)[other] = (*l)[other], (*l)[at] }))
	}
	return list
}

func additions(original *log) (list []mutation) {
	for _, at := range places {
		forged := (*original)[0]
		forged.Stream, forged.ID = "feed-"+uuid.Nil.String(), uuid.Nil
		list = append(list, mutationOf(fmt.Sprintf("an event is added before %d", at), treeheads.Added, at,
			func(l *log) { *l = slices.Insert(*l, at, forged) }))
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
					must.Get(sealer(l).Seal(t.Context(), by))(t)
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
			must.Get(s.Seal(t.Context(), by))(t)
		},
		kind: treeheads.HeadFault,
	})
}

// forgeries change heads.
func forgeries() (list []mutation) {
	for field, change := range map[string]func(*treehead.Signed){
		"number":                     func(e *treehead.Signed) { e.Number++ },
		"size":                       func(e *treehead.Signed) { e.Size++ },
		"root":                       func(e *treehead.Signed) { e.Root[0] ^= 1 },
		"time":                       func(e *treehead.Signed) { e.At = e.At.Add(time.Hour) },
		"key":                        func(e *treehead.Signed) { e.Key = evil[32:] },
		"signature":                  func(e *treehead.Signed) { e.Signature[0] ^= 1 },
		"leaves":                     func(e *treehead.Signed) { e.Leaves[0] ^= 1 },
		"all, signed by another key": func(e *treehead.Signed) { signAgain(e, e.At, evil) },
	} {
		for _, number := range []uint64{0, 3} {
			list = append(list, mutation{
				name:   fmt.Sprintf("%s of head %d", field, number),
				change: func(t *testing.T, l *log) { t.Helper(); l.forge(t, number, change) },
				kind:   treeheads.HeadFault,
				index:  number,
			})
		}
	}
	return append(list, mutation{
		name: "head 3 has another date, signed by the same key",
		change: func(t *testing.T, l *log) {
			t.Helper()
			l.forge(t, 3, func(e *treehead.Signed) { signAgain(e, e.At.Add(time.Hour), own) })
		},
		kind:  treeheads.Rewritten,
		index: 32,
	},
		mutationOf("the last head alone is cut", treeheads.Rewritten, 43, func(l *log) { *l = (*l)[:l.headAt(3)] }),
		mutationOf("head 1 is cut", treeheads.HeadFault, 1,
			func(l *log) { at := l.headAt(1); *l = slices.Delete(*l, at, at+1) }))
}

// forge changes a head.
func (l *log) forge(t *testing.T, number uint64, change func(*treehead.Signed)) {
	t.Helper()
	stored := &(*l)[l.headAt(number)]
	head := must.Get(treehead.Events.Decode(stored))(t).(treehead.Signed)
	change(&head)
	_, data, err := treehead.Events.Encode(head)
	must.OK(t, err)
	stored.Data = data
}

// signAgain signs a head at a time by a key.
func signAgain(e *treehead.Signed, at time.Time, key ed25519.PrivateKey) {
	tree, err := seal.ResumeTree(e.Size, e.Nodes)
	if err != nil {
		panic(err)
	}
	head := seal.Sign(tree, e.Leaves, at, key)
	e.At, e.Key, e.Signature = head.At, head.Key, head.Signature
}

// cutting returns logs in which another client of the store has removed the beginning of a stream, or all of it, before
// and after a scavenge.
func cutting() (list []mutation) {
	for text, metadata := range map[string]string{
		"$tb": `{"$tb":3}`, "deleted": `{"$tb":9223372036854775807}`, "$maxCount": `{"$maxCount":2}`,
		"$maxAge": `{"$maxAge":1}`, "both": `{"$maxAge":1,"$tb":1}`, "tombstone": "",
	} {
		for _, at := range []int{0, 1, 5} {
			for _, scavenged := range []bool{false, true} {
				name := fmt.Sprintf("%s of stream %d, scavenged %v", text, at, scavenged)
				list = append(list, mutationOf(name, treeheads.Cut, 43, func(l *log) {
					cut(l, streamOf(at), metadata)
					if scavenged {
						*l = without(*l, streamOf(at), 0)
					}
				}))
			}
		}
	}
	return list
}

// retired is a log from which a published event was retired, with its dispatch and delivery.
func retired(t *testing.T, sealIt bool) (l *log, streams []string) {
	t.Helper()
	event, to := uuid.New(), uuid.New()
	batch := retirement.Retired{
		Batch:        uuid.New(),
		Publications: []retirement.Publication{{ID: event, To: []int{0}}},
		Destinations: []retirement.Destination{{ID: to}},
	}
	streams = slices.Concat(retire.Streams(batch)...)
	l = &log{}
	for _, stream := range streams {
		appendTo(t, l, stream, "thing.happened.v1", []byte("{}"))
	}
	name, data, err := retirement.Events.Encode(batch)
	must.OK(t, err)
	s := sealer(l)
	if !sealIt {
		must.Get(s.Seal(t.Context(), by))(t)
	}
	appendTo(t, l, retirement.Aggregate.Stream(retirement.LogID), name, data)
	if sealIt {
		must.Get(s.Seal(t.Context(), by))(t)
	}
	for _, stream := range streams {
		cut(l, stream, "")
	}
	return l, streams
}

func appendTo(t *testing.T, l *log, stream, name string, data []byte) {
	t.Helper()
	l.put(t, stream, eventstore.Proposed{
		ID:       uuid.New(),
		Type:     name,
		Data:     data,
		Metadata: []byte(`{"actor":"retirement"}`),
	})
}

// Streams may end if a retirement that is sealed, and as it was sealed, names them. Nothing else excuses that.
func TestRetiredStreams(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unsealed bool
		change   func(l *log, streams []string)
		cut      int
	}{
		"retired": {},
		"named twice": {change: func(l *log, _ []string) { // and sealed after the streams have ended
			again := (*l)[3]
			appendTo(t, l, retirement.Aggregate.Stream(uuid.New()), again.Type, again.Data)
			must.Get(sealer(l).Seal(t.Context(), by))(t)
		}},
		"cut beforehand":    {change: func(l *log, streams []string) { cut(l, streams[0], `{"$tb":1}`) }},
		"not sealed":        {unsealed: true, cut: 3},
		"another one":       {change: func(l *log, _ []string) { cut(l, "delivery-"+uuid.NewString(), "") }, cut: 1},
		"another category":  {change: func(l *log, streams []string) { cut(l, "x"+streams[0], "") }, cut: 1},
		"retirement forged": {change: func(l *log, _ []string) { (*l)[3].Metadata = []byte("{}") }, cut: 3},
	} {
		l, streams := retired(t, !c.unsealed)
		if c.change != nil {
			c.change(l, streams)
		}
		for _, stream := range streams {
			*l = without(*l, stream, 0)
		}
		l.number()
		report := verify(t, l, nil)
		var cuts int
		for _, f := range report.Faults {
			if f.Kind == treeheads.Cut {
				cuts++
			}
		}
		if cuts != c.cut || report.OK() != (c.cut == 0) || c.cut == 0 && (report.Removed != 3 || report.Retired != 3) {
			t.Errorf("%s: %+v", name, report)
		}
	}
}

// A forged head among those that were kept elsewhere is named, and says nothing about the log.
func TestForgedHeadElsewhere(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	heads[1].Size--
	report := verify(t, l, heads)
	assert.True(t, report.Count == 1 && report.Faults[0].Kind == treeheads.HeadFault && report.Elsewhere == 3,
		"%+v", report)
}
