package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// crash leaves appends in progress and goes on with the files as a loss of power would leave them: the synced part, and
// some of the rest. Of the appends in progress, a first part may be there, each as a whole.
func (m *machine) crash(t *rapid.T) {
	type pending struct {
		name string
		list []*modelEvent
		wait func() (Result, error)
	}
	var flying []pending
	for range rapid.IntRange(0, 6).Draw(t, "in progress") {
		name := rapid.SampledFrom(modelStreams[:3]).Draw(t, "stream")
		if m.dead(name) {
			continue
		}
		p := pending{name: name}
		var proposed []Proposed
		for range rapid.IntRange(1, 3).Draw(t, "events") {
			event := &modelEvent{id: m.newID(), data: fmt.Sprint(m.ids)}
			p.list = append(p.list, event)
			proposed = append(proposed, Propose(EventContent{
				ID:     event.id,
				Stream: name,
				Type:   "type",
				Data:   []byte(event.data),
			}))
		}
		var err error
		if p.wait, err = m.store.Start(context.Background(), name, Any(), proposed); err != nil {
			t.Fatal(err)
		}
		flying = append(flying, p)
	}
	acknowledged := rapid.IntRange(0, len(flying)).Draw(t, "acknowledged")
	for _, p := range flying[:acknowledged] {
		if _, err := p.wait(); err != nil {
			t.Fatal(err)
		}
	}
	after := m.fs.CrashClone(vfs.CrashCloneCfg{
		UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "unsynced"),
		RNG:                 rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)), // #nosec G404 -- a test
	})
	m.close(t)
	m.fs = after
	m.open(t)
	for i, p := range flying {
		if i >= acknowledged && !m.has(t, p.list[0].id) {
			return // and none after it, which the check verifies
		}
		m.accept(p.name, p.list)
	}
}

func (m *machine) has(t *rapid.T, id EventID) bool {
	found := false
	if _, _, err := m.store.ReadAll(0, func(r Record) bool {
		found = found || r.ID() == id
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func (m *machine) scavenge(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
		t.Skip("too soon")
	}
	if _, err := m.store.Scavenge(context.Background(), nil); err != nil {
		t.Fatalf("scavenge: %v", err)
	}
	for _, name := range modelStreams {
		s := m.stream(name)
		visible := m.visible(name)
		for i, event := range s.events {
			event.gone = event.gone || s.tombstoned || !slices.Contains(visible, s.events[i])
		}
	}
	m.log = slices.DeleteFunc(m.log, func(e *modelEvent) bool { return e.gone })
}

// visible are the readable events of a stream, tombstones aside.
func (m *machine) visible(name string) (list []*modelEvent) {
	s := m.stream(name)
	if s.softDeleted() {
		return nil
	}
	first := s.settings.TruncateBefore
	maxCount := s.settings.MaxCount
	if _, ok := DescribedStream(name); ok {
		maxCount = 1
	}
	if count := uint64(len(s.events)); maxCount > 0 && count > maxCount {
		first = max(first, count-maxCount)
	}
	for _, event := range s.events {
		young := s.settings.MaxAge == 0 || event.created >= (m.clock.Load()-int64(s.settings.MaxAge))*ticksPerSecond
		if event.revision >= first && young && !event.gone {
			list = append(list, event)
		}
	}
	return list
}

// check compares everything that can be read.
func (m *machine) check(t *rapid.T) {
	var got []*modelEvent
	collect := func(r Record) bool {
		_, data, err := r.Content()
		stream, _, nameErr := r.Names()
		if err := errors.Join(err, nameErr, r.verify()); err != nil {
			t.Fatal(err)
		}
		got = append(got, &modelEvent{
			id:       r.ID(),
			stream:   string(stream),
			revision: r.Revision(),
			created:  r.Created(),
			data:     string(data),
		})
		return true
	}
	if _, end, err := m.store.ReadAll(0, collect); err != nil || !end {
		t.Fatalf("read all: end %v, %v", end, err)
	}
	m.compare(t, "all", got, m.log)
	got = nil
	if err := m.store.ReadAllBackwards(1<<63, collect); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(got)
	m.compare(t, "all backwards", got, m.log)
	for _, name := range modelStreams {
		s := m.stream(name)
		stream, err := m.store.Stream(context.Background(), name)
		if err != nil {
			t.Fatal(err)
		}
		if stream.Tombstoned() != m.dead(name) || stream.Last() != s.last() {
			t.Fatalf("stream %s: tombstoned %v, last %d, want %v, %d", name, stream.Tombstoned(), stream.Last(),
				m.dead(name), s.last())
		}
		if m.dead(name) {
			continue
		}
		for _, direction := range []Direction{Forwards, Backwards} {
			got = nil
			from := uint64(0)
			if direction == Backwards {
				from = MaxRevision
			}
			if err := m.store.ReadStream(stream, from, direction, collect); err != nil {
				t.Fatal(err)
			}
			if direction == Backwards {
				slices.Reverse(got)
			}
			m.compare(t, name, got, m.visible(name))
		}
	}
	report, err := m.store.Verify(context.Background(), nil)
	if err != nil || report.Faults > 0 || report.Events != uint64(len(m.log)) {
		t.Fatalf("verify: %+v, %v", report, err)
	}
}

func (m *machine) compare(t *rapid.T, what string, got, want []*modelEvent) {
	if len(got) != len(want) {
		t.Fatalf("%s: %d events, want %d", what, len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		unknown := w.id == EventID{} // written by the store itself
		if g.stream != w.stream || g.revision != w.revision || g.created != w.created ||
			!unknown && (g.id != w.id || g.data != w.data) {
			t.Fatalf("%s: event %d is %+v, want %+v", what, i, *g, *w)
		}
	}
}
