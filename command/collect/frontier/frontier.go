// Package frontier remembers a walk and its pages for as long as a process runs. It serves walks that nobody wants to
// go on with, such as trying a source.
package frontier

import (
	"cmp"
	"context"
	"slices"
	"time"

	"carillon/command/collect"
)

// Memory is a collect.Frontier. It is not safe for concurrent use.
type Memory struct {
	pages map[string]*page
	next  int // counts the links, so that pages come in the order in which they were linked
	walk  int
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
	for _, link := range start {
		p := m.link(link, now)
		p.known.Root, p.ahead, p.rank = true, true, 0
	}
}

// link adds a page to the walk, and says whether to ask for it.
func (m *Memory) link(link collect.Link, now time.Time) *page {
	p := m.pages[link.Address]
	if p == nil {
		p = &page{}
		m.pages[link.Address] = p
	}
	if p.walk != m.walk {
		m.next++
		p.walk, p.order = m.walk, m.next
		p.known.Link = link
		p.rank, p.ahead = collect.Ahead(link, p.known, now)
	}
	return p
}

// Next implements collect.Frontier.
func (m *Memory) Next(context.Context) (collect.Known, bool, error) {
	var first *page
	for _, p := range m.pages {
		if p.ahead && p.walk == m.walk && (first == nil || cmp.Or(cmp.Compare(p.rank, first.rank), cmp.Compare(p.order, first.order)) < 0) {
			first = p
		}
	}
	if first == nil {
		return collect.Known{}, false, nil
	}
	return first.known, true, nil
}

// Record keeps what came of a page. The walk goes on behind it.
func (m *Memory) Record(visited collect.Visited, now time.Time) {
	p := m.pages[visited.Known.Address]
	if p == nil || !p.ahead {
		return
	}
	p.ahead, p.known.AskedAt = false, now
	if visited.Err != nil {
		return
	}
	p.known.State, p.known.ReadAt, p.known.ReadModified = visited.Page.State, now, visited.Known.Modified
	if !visited.Page.Unchanged {
		p.known.Shown, p.known.Until = len(visited.Page.Observations), visited.Page.Until()
		p.known.Barren++
		if p.known.Shown > 0 {
			p.known.Barren = 0
		}
		p.lists = p.lists[:0]
		for _, link := range visited.Page.Links {
			p.lists = append(p.lists, link.Address)
		}
	}
	for _, link := range visited.Page.Links {
		m.link(link, now)
	}
	for _, address := range p.lists { // also of a list that is unchanged
		if listed := m.pages[address]; listed != nil {
			m.link(listed.known.Link, now)
		}
	}
}

// Progress counts the pages that were asked for in this walk, and all that it is to ask for.
func (m *Memory) Progress() (done, all int) {
	for _, p := range m.pages {
		if p.walk == m.walk {
			all++
			if !p.ahead {
				done++
			}
		}
	}
	return done, all
}

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
