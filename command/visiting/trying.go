package visiting

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier"
)

// Trial walks through a source without recording anything.
type Trial struct {
	Source    collect.Source
	Collector collect.Collector
	Most      int // number of pages
	Now       time.Time
	Progress  func(done, all int) // Optional. Called after each page
}

// Tried is the result of a trial.
type Tried struct {
	Observations []collect.Observation
	Requests     int
	Notes        collect.Notes
	Passed       []collect.Passed // dates in posts that belong to no event
	Unread       int              // pages that were found and not read; there may be more
}

// Run reads the pages. An unreadable page is noted; if it is the first one, its error is returned.
func (t Trial) Run(ctx context.Context) (found Tried, err error) {
	pages, together := frontier.New(t.Collector.Start(t.Source), t.Now), Gathering{}
	for visited, err := range collect.Walk(ctx, t.Collector, t.Source, pages) {
		if err == nil && visited.Known.Root {
			err = visited.Err
		}
		if err != nil && (visited.Known.Root || ctx.Err() != nil) {
			return found, err
		}
		if err = errors.Join(err, visited.Err); err != nil {
			found.note(collect.Note{Code: collect.NotePageFailed, Text: visited.Known.Address + " can't be read: " +
				err.Error()})
		}
		pages.Record(visited, t.Now)
		if err := together.Add(visited.Known.Address, visited.Page.Observations, t.Now); err != nil {
			return found, err
		}
		found.Requests += visited.Page.Requests
		for _, note := range visited.Page.Notes {
			found.note(note)
		}
		found.Passed = append(found.Passed, visited.Page.Passed...)
		done, all := pages.Progress()
		if t.Progress != nil {
			t.Progress(done, min(all, t.Most))
		}
		if done == t.Most {
			break
		}
	}
	found.Observations = together.Together()
	done, all := pages.Progress()
	found.Unread = max(0, all-done)
	return found, nil
}

// note adds a note once.
func (t *Tried) note(note collect.Note) {
	if !slices.Contains(t.Notes, note) {
		t.Notes = append(t.Notes, note)
	}
}

// AdviceOn returns what an operator can do about a failed trial, or "" for an unknown failure.
func AdviceOn(err error) string { return Advice(reasonOf(err)) }
