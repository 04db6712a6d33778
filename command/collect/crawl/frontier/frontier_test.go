package frontier_test

import (
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/crawl/frontier/frontiertest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// aging is a Memory with a clock.
type aging struct {
	*frontier.Memory

	now time.Time
}

func (a *aging) Begin(_ *testing.T, start []collect.Link)     { a.Memory.Begin(start, a.now) }
func (a *aging) Record(_ *testing.T, visited collect.Visited) { a.Memory.Record(visited, a.now) }
func (a *aging) Age(_ *testing.T, d time.Duration)            { a.now = a.now.Add(d) }

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	frontiertest.Run(t, func(*testing.T) frontiertest.Subject {
		return &aging{frontier.New(nil, time.Now()), time.Now()}
	})
}

func TestProgressAndUnlisted(t *testing.T) {
	t.Parallel()
	now := time.Now()
	root, a := collect.Link{Address: "root", List: true}, collect.Link{Address: "a"}
	m := frontier.New([]collect.Link{root}, now)
	m.Record(collect.Visited{Known: next(t, m), Page: collect.Page{Links: []collect.Link{a}}}, now)
	done, all := m.Progress()
	assert.True(t, done == 1 && all == 2, "progress %d of %d", done, all)
	m.Record(collect.Visited{Known: next(t, m)}, now)
	m.Begin([]collect.Link{root}, now)
	m.Record(collect.Visited{Known: next(t, m)}, now)
	assert.Slices(t, m.DropUnlisted(), []string{"a"}, "unlisted")
}

func next(t *testing.T, m *frontier.Memory) collect.Known {
	t.Helper()
	known, ok, err := m.Next(t.Context())
	must.True(t, ok && err == nil, "%v %v", ok, err)
	return known
}
