package main

import (
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore/node"
)

// annotate says what was left out of a trial, and that nothing was found.
func annotate(found *visiting.Tried, most int) {
	if found.Unread > 0 {
		found.Notes.Add(collect.NoteTruncated,
			"%d pages were read, at least %d more were not: --pages sets how many are", most, found.Unread)
	}
	if len(found.Observations) == 0 && len(found.Notes) == 0 {
		found.Notes.Add(collect.NoteNoEvents, "none of %s shows an event", counted(found.Requests, "page"))
	}
}

// tryProgress is a bar on a terminal, from the moment on when there are several pages.
type tryProgress struct {
	terminal terminal
	bar      node.Progress
	end      func()
}

func (p *tryProgress) show(done, all int) {
	if all > 1 && p.bar == nil {
		p.bar, p.end = bar(p.terminal, "reading pages")
	}
	if p.bar != nil {
		p.bar(uint64(done), uint64(all)) //nolint:gosec // they are counts
	}
}

func (p *tryProgress) finish() {
	if p.end != nil {
		p.end()
	}
}
