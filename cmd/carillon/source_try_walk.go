package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/frontier"
	"carillon/command/collection"
	"carillon/eventstore/node"
)

// tryWalk is a walk through a source of which nothing is recorded.
type tryWalk struct {
	source    collect.Source
	collector collect.Collector
	most      int // pages
	now       time.Time
}

// walked is what it found.
type walked struct {
	observations []collect.Observation
	requests     int
	notes        collect.Notes
	passed       []collect.Passed
}

// run goes through the pages. One that can't be read is noted, unless the walk began with it. On a terminal, a bar
// shows how far it is, as soon as there are several.
func (w *tryWalk) run(ctx context.Context, t terminal) (found walked, err error) {
	pages, together := frontier.New(w.collector.Start(w.source), w.now), collection.Gathering{}
	progress := tryProgress{terminal: t}
	defer progress.finish()
	for visited, err := range collect.Walk(ctx, w.collector, w.source, pages) {
		if err == nil && visited.Known.Root {
			err = visited.Err
		}
		if err != nil && (visited.Known.Root || ctx.Err() != nil) {
			return found, err
		}
		if err = errors.Join(err, visited.Err); err != nil {
			found.note(collect.Note{Code: collect.NotePageFailed, Text: visited.Known.Address + " can't be read: " + err.Error()})
		}
		pages.Record(visited, w.now)
		if err := together.Add(visited.Known.Address, visited.Page.Observations, w.now); err != nil {
			return found, err
		}
		found.requests += visited.Page.Requests
		for _, note := range visited.Page.Notes {
			found.note(note)
		}
		found.passed = append(found.passed, visited.Page.Passed...)
		done, all := pages.Progress()
		progress.show(done, min(all, w.most))
		if done == w.most {
			break
		}
	}
	found.observations = together.Together()
	if done, all := pages.Progress(); done < all {
		found.notes.Add(collect.NoteTruncated, "%d pages were read, at least %d more were not: --pages sets how many are", done, all-done)
	}
	if len(found.observations) == 0 && len(found.notes) == 0 {
		found.notes.Add(collect.NoteNoEvents, "none of %s shows an event", counted(found.requests, "page"))
	}
	return found, nil
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

// note adds what was not said before.
func (w *walked) note(note collect.Note) {
	if !slices.Contains(w.notes, note) {
		w.notes = append(w.notes, note)
	}
}
