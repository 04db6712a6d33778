package curate_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/curate"
	"carillon/command/curate/curatetest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
)

// mortal is a store as a process has it that is killed at one of its appends, before or after that is recorded, and
// nothing works any more.
type mortal struct {
	eventstore.Store

	mu   sync.Mutex
	left int // appends to come, counted twice: an odd number is killed after the last one
}

var errKilled = errors.New("killed")

// forever is more appends than there are.
const forever = 1 << 30

// Append implements eventstore.Store.
func (m *mortal) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	m.mu.Lock()
	m.left -= 2
	left := m.left
	m.mu.Unlock()
	if left < -1 {
		return eventstore.Appended{}, errKilled
	}
	appended, err := m.Store.Append(ctx, stream, expected, events)
	if left < 0 {
		return eventstore.Appended{}, errKilled
	}
	return appended, err
}

// process is a process that curates the feeds of a store. Tests call react.
type process struct {
	t        testing.TB
	store    eventstore.Store
	mortal   *mortal
	commands *command.Commands
	memory   *curatetest.Memory
	curation *curate.FeedCuration
	seen     eventstore.Position
	saved    eventstore.Position
	rows     map[string]eventstore.SavedRow
	killed   bool
}

func newProcess(t testing.TB) *process {
	t.Helper()
	p := &process{t: t, store: nodetest.Start(t)}
	p.lose()
	return p
}

// lose begins a process that has lost everything but the events.
func (p *process) lose() {
	p.t.Helper()
	p.memory, p.rows, p.saved = curatetest.New(), map[string]eventstore.SavedRow{}, eventstore.Start
	p.begin()
}

// begin begins a process with the saved state.
func (p *process) begin() {
	p.t.Helper()
	types, err := catalog.New()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mortal = &mortal{Store: p.store, left: forever}
	p.commands = &command.Commands{Store: p.mortal, Now: time.Now, Catalog: types}
	p.curation = curate.NewFeedCuration(p.mortal, p.commands, p.memory, p.memory, 0, slog.New(slog.DiscardHandler))
	for _, row := range p.rows {
		if err := p.curation.Restore(row); err != nil {
			p.t.Fatal(err)
		}
	}
	head, err := p.store.Head(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	p.curation.Begin(head)
	p.seen = p.saved
	p.memory.Save = func(dealtWith []eventstore.Recorded) error {
		rows, err := p.curation.Changed()
		for _, row := range rows {
			p.rows[row.Kind+row.ID] = row
			if row.Data == nil {
				delete(p.rows, row.Kind+row.ID)
			}
		}
		p.saved = dealtWith[len(dealtWith)-1].Position
		return err
	}
}

// react reacts to what was recorded, in batches, and to what follows. A killed process has a successor.
func (p *process) react(batch int) {
	p.t.Helper()
	for {
		events := processtest.Events(p.t, p.store, p.seen, p.curation.Traits().Filter)
		if len(events) == 0 {
			return
		}
		for some := range slices.Chunk(events, batch) {
			if err := p.curation.React(p.t.Context(), some); errors.Is(err, errKilled) {
				p.killed = true
				p.begin()
				break
			} else if err != nil {
				p.t.Fatal(err)
			}
			p.seen = some[len(some)-1].Position
		}
	}
}

// copied returns a function that restores the present state.
func (p *process) copied() (restore func()) {
	memory, state, saved := p.memory.Copy(), maps.Clone(p.rows), p.saved
	return func() {
		p.memory, p.rows, p.saved = memory.Copy(), maps.Clone(state), saved
		p.begin()
	}
}
