package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type sourceCollectCommand struct {
	changing
	ofSource
	Wait bool `help:"Wait until all pages were visited, and show progress."`
}

// Run asks for the collection.
func (c *sourceCollectCommand) Run(
	ctx context.Context, t terminal, client *adminclient.Client, source uuid.UUID,
) error {
	var before query.Source
	if c.Wait {
		var err error
		if before, err = findSource(ctx, client, source); err != nil {
			return err
		}
	}
	if err := client.CollectSource(ctx, source); err != nil {
		return err
	}
	if c.Wait {
		return c.wait(ctx, t, client, source, before.StartedAt)
	}
	return c.print(t.out, adminapi.Created{ID: source}, func(w io.Writer) {
		row(w, "collection requested; \"carillon source list\" shows how it goes")
	})
}

// ofSource has the argument of every subcommand that is about a source.
type ofSource struct {
	Source idStart `arg:"" help:"Id of the source, or its beginning."`
}

// ProvideSource finds the source for every subcommand whose Run takes an id.
func (o *ofSource) ProvideSource(ctx context.Context, client *adminclient.Client) (uuid.UUID, error) {
	return o.Source.find("source", "source list", func() ([]uuid.UUID, error) {
		list, err := client.Sources(ctx, adminclient.SourceFilter{})
		ids := make([]uuid.UUID, len(list))
		for i, s := range list {
			ids[i] = s.ID
		}
		return ids, err
	})
}

// collectPoll is the time between two looks at a walk.
const collectPoll = time.Second / 4

// wait shows how far the walk is until it has ended, and then what came of it. The list of sources may be late: as
// long as nothing has begun since before, it has yet to hear of the request.
func (c *sourceCollectCommand) wait(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID,
	before *time.Time) error {
	line := newStatusLine(t)
	defer line.end()
	for {
		s, err := findSource(ctx, client, id)
		if err != nil {
			return err
		}
		begun := s.StartedAt != nil && (before == nil || s.StartedAt.After(*before))
		if begun && !s.Requested && s.State != "collecting" || s.PausedAt != nil {
			line.end()
			return c.ended(t, s)
		}
		if now := time.Now(); line.due(now) {
			line.show(now, walkText(s))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(collectPoll):
		}
	}
}

// findSource reads a source off the list, which may not have it yet: then it has nothing but its id.
func findSource(ctx context.Context, client *adminclient.Client, id uuid.UUID) (query.Source, error) {
	list, err := client.Sources(ctx, adminclient.SourceFilter{})
	if err != nil {
		return query.Source{}, err
	}
	for _, s := range list {
		if s.ID == id {
			return s, nil
		}
	}
	return query.Source{ID: id}, nil
}

// ended prints a source whose walk has ended. One that could not be collected is an error.
func (c *sourceCollectCommand) ended(t terminal, s query.Source) error {
	if s.State != "ok" {
		return fmt.Errorf("the source is %s: %s", s.State, remark(s))
	}
	return c.print(t.out, s, func(w io.Writer) {
		row(w, counted(s.Observed, "event")+" on show")
		for _, note := range s.Notes {
			row(w, note.Code+": "+note.Text)
		}
	})
}

// barWidth is how wide a bar is, in characters.
const barWidth = 24

// walkText says how far a walk is. How much is ahead is known only as far as it has come.
func walkText(s query.Source) string {
	if s.Asked == nil {
		return "waiting for its turn"
	}
	asked, linked := *s.Asked, max(*s.Linked, *s.Asked, 1)
	full := barWidth * asked / linked
	text := fmt.Sprintf("[%s%s] %d of %s", strings.Repeat("#", full), strings.Repeat(" ", barWidth-full), asked,
		counted(linked, "page"))
	if s.Message != "" {
		text += ", " + s.Message
	}
	return text
}
