// Package frontier stores a walk and its pages in memory, for walks that never continue in another process, such as
// trials.
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
	next  int // counts the links, for the order of pages
	walk  int
	// done and all count the pages of the walk.
	done, all int
}

type page struct {
	known collect.Known
	walk  int // the last one that reached it
	ahead bool
	rank  int
	order int
	lists []string // addresses that it links, if it is a list
}

var _ collect.Frontier = (*Memory)(nil)

// New returns a Memory at the beginning of the first walk.
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

// link adds a page to the walk, unless the walk has it.
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

// queue has the pages ahead, the next one first.
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

// Record stores the result of a page.
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
	if visited.Page.Partial { // it may still show its earlier happenings
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

// Progress returns the number of pages of this walk that are done, fetched or not, and of all.
func (m *Memory) Progress() (done, all int) { return m.done, m.all }

// Ahead returns the addresses of the pages ahead, in no order.
func (m *Memory) Ahead() (addresses []string) {
	for _, p := range m.ahead {
		if p.ahead {
			addresses = append(addresses, p.known.Address)
		}
	}
	return addresses
}

// DropUnlisted drops the pages that this walk did not find, and returns their addresses. If it was complete, they no
// longer belong to the source.
func (m *Memory) DropUnlisted() []string {
	var gone []string
	for address, p := range m.pages {
		if p.walk != m.walk {
			gone = append(gone, address)
			delete(m.pages, address)
		}
	}
	slices.Sort(gone)
	return gone
}
