package collection

import (
	"context"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/frontier"
)

// result is what a walk found.
type result struct {
	Observations []collect.Observation
	Cursor       collect.State
	NotModified  bool
	Pages        int
	Notes        []collect.Note
}

// gather walks a source whole. The cursor is what the root was remembered by.
func gather(ctx context.Context, c collect.Collector, source collect.Source, cursor collect.State, now time.Time) (result, error) {
	pages := frontier.New(c.Start(source), now)
	var found result
	for visited, err := range collect.Walk(ctx, &rooted{c, cursor}, source, pages) {
		if err == nil && visited.Known.Root {
			err = visited.Err
			found.NotModified, found.Cursor = visited.Page.Unchanged, visited.Page.State
		}
		if err != nil {
			return result{}, err
		}
		pages.Record(visited, now)
		found.Pages += visited.Page.Requests
		found.Observations = append(found.Observations, visited.Page.Observations...)
		found.Notes = append(found.Notes, visited.Page.Notes...)
	}
	return found, nil
}

type rooted struct {
	collect.Collector
	cursor collect.State
}

func (r *rooted) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	if page.Root {
		page.State = r.cursor
	}
	return r.Collector.Read(ctx, source, page)
}
