package irreversible_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/command/irreversible"
	"carillon/eventstore"
	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// machine has an event store, and three clocks.
type machine struct {
	store              eventstore.Store
	own, database, log atomic.Int64 // of which each shows noon and more
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{}
	n := must.Get(node.Open(node.Config{Dir: "store", FS: vfs.NewMem(), Now: clock(&m.log)}))(t)
	store := n.Store()
	t.Cleanup(func() {
		store.Close()
		must.OK(t, n.Close())
	})
	m.store = store
	return m
}

func clock(beyondNoon *atomic.Int64) func() time.Time {
	return func() time.Time { return noon.Add(time.Duration(beyondNoon.Load())) }
}

// at sets all clocks.
func (m *machine) at(beyondNoon time.Duration) {
	for _, c := range []*atomic.Int64{&m.own, &m.database, &m.log} {
		c.Store(int64(beyondNoon))
	}
}

// gate is that of a process: a new one remembers nothing.
func (m *machine) gate() *irreversible.Gate {
	return &irreversible.Gate{
		Store:    m.store,
		Database: func(context.Context) (time.Time, error) { return clock(&m.database)(), nil },
		Own:      clock(&m.own),
	}
}

// pass asks whether an act may take a part of 100.
func (m *machine) pass(t *testing.T, due int) error {
	t.Helper()
	now, err := m.gate().Pass(t.Context(), irreversible.RetireEvents,
		func(context.Context, time.Time) (irreversible.Share, error) {
			return irreversible.Share{Due: due, Of: 100}, nil
		})
	if err == nil && !now.Equal(clock(&m.database)()) {
		t.Errorf("passed by %s", now)
	}
	return err
}

// Nothing happens while one of three clocks shows another time, and what is due happens when all agree.
func TestGateComparesClocks(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(m *machine, by time.Duration){
		"process":  func(m *machine, by time.Duration) { m.own.Store(int64(by)) },
		"Postgres": func(m *machine, by time.Duration) { m.database.Store(int64(by)) },
		"newest":   func(m *machine, by time.Duration) { m.log.Store(int64(by)) },
	} {
		for _, by := range []time.Duration{year, 61 * time.Second, -61 * time.Second, -year} {
			m := newMachine(t)
			set(m, by)
			assert.Is(t, m.pass(t, 1), irreversible.ErrClocks, "%s by %s", name, by)
			if name == "newest" && by > 0 {
				m.log.Store(0) // the log stays ahead: its times only grow
				assert.Is(t, m.pass(t, 1), irreversible.ErrClocks, "newest event by %s", by)
			}
			m.at(max(by, 0))
			assert.Is(t, m.pass(t, 1), nil, "%s by %s, then set right", name, by)
		}
	}
	m := newMachine(t)
	m.own.Store(int64(59 * time.Second))
	must.OK(t, m.pass(t, 10))
}

// More than a tenth of the log takes two turns a day apart, whichever processes they are in, and a clock that leaps
// begins again.
func TestGatePostponesLargeShare(t *testing.T) {
	t.Parallel()
	type turn struct {
		at    time.Duration
		due   int
		waits bool
	}
	for name, turns := range map[string][]turn{
		"two days of turns": {{0, 11, true}, {23 * time.Hour, 20, true}, {day, 21, false}, {day + time.Hour, 20, false}},
		"a tenth":           {{0, 10, false}},
		"leap":              {{0, 1, false}, {year, 99, true}, {year + 23*time.Hour, 99, true}},
		"leap by a day":     {{0, 20, true}, {day, 99, true}, {day + time.Hour, 99, true}, {2 * day, 99, false}},
		"again":             {{0, 50, true}, {day, 50, false}, {day + time.Hour, 0, false}, {day + 2*time.Hour, 50, true}},
		"first one is old":  {{0, 50, true}, {3 * day, 50, true}, {4 * day, 50, false}},
	} {
		m := newMachine(t)
		for i, one := range turns {
			m.at(one.at)
			err := m.pass(t, one.due)
			if errors.As(err, new(*irreversible.PostponedError)) != one.waits || err != nil && !one.waits {
				t.Errorf("%s, turn %d: %v", name, i, err)
			}
		}
	}
}

// Two processes at once postpone alike, and where nothing is due, nothing is recorded.
func TestGateOfTwoProcesses(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	must.OK(t, m.pass(t, 0))
	assert.Equal(t, must.Get(m.store.Head(t.Context()))(t), eventstore.Start, "recorded although nothing is due")
	both := func(waits bool) {
		t.Helper()
		failures := make(chan error)
		for range 2 {
			go func() { failures <- m.pass(t, 50) }()
		}
		for range 2 {
			if err := <-failures; errors.As(err, new(*irreversible.PostponedError)) != waits || err != nil && !waits {
				t.Errorf("waits is %v: %v", waits, err)
			}
		}
	}
	both(true)
	m.at(day)
	both(false)
}

// A clock or a share that is not known forbids.
func TestGateUnanswered(t *testing.T) {
	t.Parallel()
	m, away := newMachine(t), errors.New("away "+uuid.NewString())
	g := m.gate()
	if _, err := g.Pass(t.Context(), irreversible.Scavenge, func(context.Context, time.Time) (irreversible.Share, error) {
		return irreversible.Share{}, away
	}); !errors.Is(err, away) {
		t.Errorf("the share is not known: %v", err)
	}
	g.Database = func(context.Context) (time.Time, error) { return time.Time{}, away }
	assert.Is(t, assert.Err(g.Pass(t.Context(), irreversible.Scavenge, nil)), away, "Postgres is away")
}
