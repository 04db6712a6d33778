package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestStoreAgreesWithModel drives random operations, with crashes between them, against the store and a model that
// keeps everything in plain slices.
func TestStoreAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer m.close(t)
		t.Repeat(map[string]func(*rapid.T){
			"append":    m.append,
			"repeat":    m.repeat,
			"delete":    m.delete,
			"tombstone": m.tombstone,
			"metadata":  m.metadata,
			"age":       func(t *rapid.T) { m.clock.Add(rapid.Int64Range(-3, 5).Draw(t, "seconds")) },
			"reopen":    m.reopen,
			"crash":     m.crash,
			"scavenge":  m.scavenge,
			"":          m.check,
		})
	})
}

type modelEvent struct {
	id       EventID
	stream   string
	revision uint64
	created  int64
	data     string
	gone     bool // scavenged
}

type modelStream struct {
	events     []*modelEvent
	tombstoned bool
	base       uint64
	settings   Settings
}

type machine struct {
	fs      *vfs.MemFS
	store   *Store
	clock   atomic.Int64 // seconds
	created int64        // ticks, of the newest event
	ids     int
	streams map[string]*modelStream
	log     []*modelEvent
}

const modelDir = "node"

var modelStreams = []string{"a", "b", "c-1", "$$a", "$$b", "$$c-1"}

func newMachine(t *rapid.T) *machine {
	m := &machine{fs: vfs.NewCrashableMem(), streams: map[string]*modelStream{}}
	m.clock.Store(1_700_000_000)
	m.open(t)
	return m
}

func (m *machine) open(t *rapid.T) {
	opened, err := Open(Options{
		Dir:           modelDir,
		FS:            m.fs,
		MemTableBytes: 64 << 10,
		Now:           func() time.Time { return time.Unix(m.clock.Load(), 0) },
	})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	m.store = opened
}

func (m *machine) close(t *rapid.T) {
	if err := m.store.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func (m *machine) stream(name string) *modelStream {
	if m.streams[name] == nil {
		m.streams[name] = &modelStream{}
	}
	return m.streams[name]
}

func (s *modelStream) last() int64 {
	if s.tombstoned {
		return MaxRevision
	}
	return int64(len(s.events)) - 1
}

func (s *modelStream) softDeleted() bool { return s.settings.softDeleted() }

func (m *machine) newID() EventID {
	m.ids++
	return EventID{0: 1, 14: byte(m.ids >> 8), 15: byte(m.ids)}
}

// dead reports whether nothing may be written to the stream any more.
func (m *machine) dead(name string) bool {
	described, ok := DescribedStream(name)
	return m.stream(name).tombstoned || ok && m.stream(described).tombstoned
}

// tick returns when the next event is recorded.
func (m *machine) tick() int64 {
	m.created = max(m.created+ticksPerMicrosecond, m.clock.Load()*ticksPerSecond)
	return m.created
}

// add appends to the model as the store should.
func (m *machine) add(name string, list ...*modelEvent) {
	s := m.stream(name)
	for _, event := range list {
		event.stream, event.created = name, m.tick()
		event.revision = uint64(len(s.events))
		s.events = append(s.events, event)
		m.log = append(m.log, event)
	}
}

// addMetadata appends metadata that the store writes by itself, whose id is unknown.
func (m *machine) addMetadata(name, data string) {
	m.add(MetadataStream(name), &modelEvent{data: data})
	m.stream(name).settings = parseSettings(true, []byte(data))
}

func drawExpected(t *rapid.T, s *modelStream) Expected {
	switch rapid.SampledFrom([]string{"any", "none", "exists", "last", "other"}).Draw(t, "expected") {
	case "none":
		return NoStream()
	case "exists":
		return StreamExists()
	case "last":
		if s.last() >= 0 {
			return Revision(uint64(s.last()))
		}
	case "other":
		return Revision(uint64(rapid.IntRange(0, 6).Draw(t, "revision")))
	}
	return Any()
}

func (m *machine) append(t *rapid.T) {
	name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
	list := make([]*modelEvent, rapid.IntRange(0, 4).Draw(t, "events"))
	for i := range list {
		size := rapid.SampledFrom([]int{0, 10, 3000}).Draw(t, "size")
		list[i] = &modelEvent{id: m.newID(), data: fmt.Sprintf("%0*d", size, m.ids)}
	}
	m.appendList(t, name, drawExpected(t, m.stream(name)), list)
}

// repeat sends ids again that a stream has, or once had, at some revision.
func (m *machine) repeat(t *rapid.T) {
	name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
	s := m.stream(name)
	if len(s.events) == 0 {
		t.Skip("nothing to repeat")
	}
	from := rapid.IntRange(0, len(s.events)-1).Draw(t, "from")
	to := rapid.IntRange(from, len(s.events)).Draw(t, "to")
	var list []*modelEvent
	for _, event := range s.events[from:to] {
		list = append(list, &modelEvent{id: event.id, data: event.data})
	}
	if rapid.Bool().Draw(t, "one more") {
		list = append(list, &modelEvent{id: m.newID()})
	}
	expected := NoStream()
	if from > 0 {
		expected = Revision(uint64(from - 1))
	}
	m.appendList(t, name, expected, list)
}

func (m *machine) appendList(t *rapid.T, name string, expected Expected, list []*modelEvent) {
	var proposed []Proposed
	for _, event := range list {
		proposed = append(proposed, Propose(EventContent{
			ID:     event.id,
			Stream: name,
			Type:   "type",
			Data:   []byte(event.data),
		}))
	}
	result, err := m.store.Append(context.Background(), name, expected, proposed)
	s := m.stream(name)
	switch outcome, at := m.classify(name, expected, list); outcome {
	case "deleted":
		if !errors.Is(err, ErrStreamDeleted) {
			t.Fatalf("append to deleted %s: %v", name, err)
		}
	case "wrong":
		var wrong *WrongRevisionError
		if !errors.As(err, &wrong) || wrong.Current != s.last() {
			t.Fatalf("append to %s at %d expecting %s: %v", name, s.last(), expected, err)
		}
	case "repeated":
		if err != nil || result.Revision != int64(at)+int64(len(list))-1 {
			t.Fatalf("repeated append to %s: %+v, %v", name, result, err)
		}
	default:
		if err != nil {
			t.Fatalf("append to %s at %d expecting %s: %v", name, s.last(), expected, err)
		}
		m.accept(name, list)
		if result.Revision != s.last() {
			t.Fatalf("append to %s ended at %d, want %d", name, result.Revision, s.last())
		}
	}
}

// classify returns the required outcome of an append, and which append it repeats.
func (m *machine) classify(name string, expected Expected, list []*modelEvent) (outcome string, at uint64) {
	s := m.stream(name)
	revision, exact := expected.Exact()
	start := s.base
	switch {
	case m.dead(name):
		return "deleted", 0
	case expected.IsAny():
		return "accepted", 0
	case expected.IsStreamExists() && s.softDeleted():
		return "deleted", 0
	case expected.IsStreamExists() && s.last() < 0 && len(m.stream(MetadataStream(name)).events) == 0:
		return "wrong", 0
	case expected.IsStreamExists():
		return "accepted", 0
	case expected.IsNoStream() && (s.last() < 0 || s.softDeleted()):
		return "accepted", 0
	case exact && int64(revision) == s.last():
		return "accepted", 0
	case exact && int64(revision) > s.last():
		return "wrong", 0
	case exact:
		start = revision + 1
	}
	if len(list) == 0 || start+uint64(len(list)) > uint64(len(s.events)) {
		return "wrong", 0
	}
	for i, event := range list {
		if there := s.events[start+uint64(i)]; there.id != event.id || there.gone {
			return "wrong", 0
		}
	}
	return "repeated", start
}

func (m *machine) accept(name string, list []*modelEvent) {
	if len(list) == 0 {
		return
	}
	s := m.stream(name)
	base, revived := uint64(len(s.events)), s.softDeleted()
	m.add(name, list...)
	if !revived {
		return
	}
	meta := m.stream(MetadataStream(name)).events
	data, err := withTruncateBefore([]byte(meta[len(meta)-1].data), base)
	if err != nil {
		panic(err)
	}
	s.base = base
	m.addMetadata(name, string(data))
}

func (m *machine) metadata(t *rapid.T) {
	name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
	data := rapid.SampledFrom([]string{
		`{}`, `{"$maxCount":2}`, `{"$maxAge":3}`, `{"$tb":1}`, `{"$tb":3,"mine":1}`, `nonsense`, `{"$maxCount":-1}`, `null`,
	}).Draw(t, "metadata")
	meta := MetadataStream(name)
	event := &modelEvent{id: m.newID(), data: data}
	_, err := m.store.Append(context.Background(), meta, Any(), []Proposed{Propose(EventContent{
		ID:     event.id,
		Stream: meta,
		Type:   MetadataType,
		JSON:   true,
		Data:   []byte(data),
	})})
	if m.dead(meta) {
		if !errors.Is(err, ErrStreamDeleted) {
			t.Fatalf("metadata of tombstoned %s: %v", name, err)
		}
		return
	}
	if err != nil {
		t.Fatalf("metadata of %s: %v", name, err)
	}
	s := m.stream(name)
	deleted := s.softDeleted()
	m.add(meta, event)
	s.settings = parseSettings(true, []byte(data))
	if base := uint64(len(s.events)); deleted && s.settings.TruncateBefore < max(base, 1) {
		merged, err := withTruncateBefore([]byte(data), base)
		if err != nil {
			panic(err)
		}
		s.base = base
		m.addMetadata(name, string(merged))
	}
}

// checkEnd reports whether a delete or a tombstone must succeed, and checks that it does or doesn't.
func (m *machine) checkEnd(t *rapid.T, name string, expected Expected, soft bool, err error) bool {
	s := m.stream(name)
	revision, exact := expected.Exact()
	exists := s.last() >= 0 && !s.softDeleted()
	described := len(m.stream(MetadataStream(name)).events) > 0
	ok := expected.IsAny() || expected.IsNoStream() && !exists || expected.IsStreamExists() && (exists || described) ||
		exact && s.last() >= 0 && int64(revision) == s.last()
	ok = ok && (!soft || s.last() >= 0 || described)
	var wrong *WrongRevisionError
	switch {
	case m.dead(name), expected.IsStreamExists() && s.softDeleted():
		if !errors.Is(err, ErrStreamDeleted) {
			t.Fatalf("end of deleted %s: %v", name, err)
		}
		return false
	case ok && err != nil, !ok && !errors.As(err, &wrong):
		t.Fatalf("end of %s at %d expecting %s: %v", name, s.last(), expected, err)
	}
	return ok
}

func (m *machine) delete(t *rapid.T) {
	name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
	expected := drawExpected(t, m.stream(name))
	_, err := m.store.Delete(context.Background(), name, expected)
	if m.checkEnd(t, name, expected, true, err) {
		m.addMetadata(name, fmt.Sprintf(`{"$tb":%d}`, uint64(MaxRevision)))
	}
}

func (m *machine) tombstone(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		t.Skip("too soon")
	}
	name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
	expected := drawExpected(t, m.stream(name))
	_, err := m.store.Tombstone(context.Background(), name, expected)
	if m.checkEnd(t, name, expected, false, err) {
		m.log = append(m.log, &modelEvent{stream: name, revision: MaxRevision, created: m.tick()})
		m.stream(name).tombstoned = true
	}
}

func (m *machine) reopen(t *rapid.T) {
	m.close(t)
	m.open(t)
}
