// Package frontier remembers a walk and its pages for as long as a process runs. It serves walks that nobody wants to
// go on with, such as trying a source.
package frontier

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"carillon/command/collect"
)

// Memory is a collect.Frontier. It is not safe for concurrent use.
type Memory struct {
	pages map[string]*page
	ahead queue
	next  int // counts the links, so that pages come in the order in which they were linked
	walk  int
	// done and all count the pages of the walk.
	done, all int
}

type page struct {
	known collect.Known
	walk  int // the last one that came across it
	ahead bool
	rank  int
	order int
	lists []string // the addresses that it linked, if it is a list
}

var _ collect.Frontier = (*Memory)(nil)

// New begins the first walk.
func New(start []collect.Link, now time.Time) *Memory {
	m := &Memory{pages: map[string]*page{}}
	m.Begin(start, now)
	return m
}

// Begin begins another walk.
func (m *Memory) Begin(start []collect.Link, now time.Time) {
	m.walk++
	m.ahead, m.done, m.all = m.ahead[:0], 0, 0
	for _, link := range start {
		m.link(link, true, now)
	}
	var lasting []*page
	for _, p := range m.pages {
		if p.known.Lasting {
			lasting = append(lasting, p)
		}
	}
	slices.SortFunc(lasting, func(a, b *page) int { return cmp.Compare(a.order, b.order) })
	for _, p := range lasting {
		m.link(p.known.Link, false, now)
	}
}

// link adds a page to the walk, unless that has come across it before.
func (m *Memory) link(link collect.Link, root bool, now time.Time) {
	p := m.pages[link.Address]
	if p == nil {
		p = &page{}
		m.pages[link.Address] = p
	}
	if p.walk == m.walk {
		return
	}
	m.next++
	p.walk, p.order = m.walk, m.next
	p.known.Link, p.known.Root = link, root
	p.rank, p.ahead = collect.Ahead(link, p.known, now)
	if root {
		p.rank, p.ahead = 0, true
	}
	m.all++
	if p.ahead {
		heap.Push(&m.ahead, p)
	} else {
		m.done++
	}
}

// queue holds the pages ahead, the next one first.
type queue []*page

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].rank, q[j].rank), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(p any) { *q = append(*q, p.(*page)) } //nolint:errcheck,forcetypeassert // it holds nothing else

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Next implements collect.Frontier.
func (m *Memory) Next(context.Context) (collect.Known, bool, error) {
	for len(m.ahead) > 0 {
		if first := m.ahead[0]; first.ahead {
			return first.known, true, nil
		}
		heap.Pop(&m.ahead)
	}
	return collect.Known{}, false, nil
}

// Record keeps what came of a page. The walk goes on behind it.
func (m *Memory) Record(visited collect.Visited, now time.Time) {
	p := m.pages[visited.Known.Address]
	if p == nil || !p.ahead {
		return
	}
	m.done++
	p.ahead, p.known.AskedAt = false, now
	if collect.Gone(visited.Err) {
		p.known.Lasting = false
		return
	}
	if visited.Err == nil {
		p.known.State, p.known.ReadAt, p.known.ReadModified = visited.Page.State, now, visited.Known.Modified
	}
	if visited.Err == nil && visited.Page.Unchanged && p.known.Shown == 0 {
		p.known.Barren++
	}
	if visited.Err != nil || visited.Page.Unchanged {
		for _, address := range p.lists { // it still links them, as far as is known
			if listed := m.pages[address]; listed != nil {
				m.link(listed.known.Link, false, now)
			}
		}
		return
	}
	shown, until := len(visited.Page.Observations), visited.Page.Until()
	if visited.Page.Partial { // what it showed before it may still show
		shown = max(shown, p.known.Shown)
		if until.Before(p.known.Until) {
			until = p.known.Until
		}
	}
	p.known.Shown, p.known.Until = shown, until
	p.known.Barren++
	if p.known.Shown > 0 {
		p.known.Barren = 0
	}
	p.lists = p.lists[:0]
	for _, link := range visited.Page.Links {
		p.lists = append(p.lists, link.Address)
		m.link(link, false, now)
	}
}

// Progress counts the pages that were asked for in this walk, or need not be, and all that it came across.
func (m *Memory) Progress() (done, all int) { return m.done, m.all }

// Unlisted gives the addresses of pages that this walk did not come across: they belong to the source no more, if the
// walk was whole.
func (m *Memory) Unlisted() []string {
	var gone []string
	for address, p := range m.pages {
		if p.walk != m.walk {
			gone = append(gone, address)
		}
	}
	slices.Sort(gone)
	return gone
}
