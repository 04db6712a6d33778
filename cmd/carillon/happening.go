package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/adminapi"
)

type happeningCommand struct {
	Show  happeningShowCommand  `cmd:"" help:"Show an event: each field, where its value comes from, and what other sources say."`
	Split happeningSplitCommand `cmd:"" help:"Say that events that were merged are not the same. They are never merged again."`
}

type happeningShowCommand struct {
	remote
	ID anID `arg:"" help:"Id of the event: the eventId of its items."`
}

// Help implements kong.HelpProvider.
func (happeningShowCommand) Help() string {
	return `The lines marked "from" gave the value, or a part of it; those marked "other" say something too and were not heard:
the platform's own record goes before the event's own page, that before a listing, that before a post. Of equals the
first to tell is heard, and the newest about dates and statuses. --json tells all.`
}

// Run shows the event.
func (c *happeningShowCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	shown, err := client.Happening(ctx, c.ID.UUID())
	if err != nil {
		return err
	}
	return c.print(t.out, shown, func(w io.Writer) { happeningRows(w, shown) })
}

type happeningSplitCommand struct {
	remote
	ID anID `arg:"" help:"Id of the event that stayed, or of one that was merged into it."`
}

// Help implements kong.HelpProvider.
func (happeningSplitCommand) Help() string {
	return `What was merged into the event is an event of its own again, with the items that it had, in the feeds that its sources
fill. No webhook tells of it. "carillon happening show" says what was merged, and why.`
}

// Run splits the event.
func (c *happeningSplitCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	split, err := client.SplitHappening(ctx, c.ID.UUID())
	if err != nil {
		return err
	}
	return c.print(t.out, split, func(w io.Writer) {
		for _, pair := range split.Split {
			row(w, fmt.Sprintf("%s and %s are two events", pair.From, pair.ID))
		}
	})
}

func happeningRows(w io.Writer, h adminapi.Happening) {
	if h.MergedInto != nil {
		row(w, "it is the same event as "+h.MergedInto.String()+", which is shown in its place")
	}
	for _, merged := range h.Merged {
		row(w, merged.String()+" is the same event; \"carillon happening split\" says that it isn't")
	}
	if h.StaleSince != nil {
		row(w, "no source shows it since "+moment(h.StaleSince))
	}
	row(w, "FIELD", "", "VALUE", "SOURCE", "WHERE", "SINCE")
	for _, field := range h.Fields {
		row(w, field.Field, "", brief(field.Value), "", "", "")
		originRows(w, "from", field.From)
		originRows(w, "other", field.Others)
	}
}

func originRows(w io.Writer, what string, origins []adminapi.HappeningOrigin) {
	for _, o := range origins {
		what := what
		if o.Stale {
			what += ", not on show"
		}
		where := strings.TrimSpace(strings.Join([]string{o.Syntax, o.Path, o.Page}, " "))
		row(w, "", what, brief(o.Value), o.SourceID.String()[:8], where, moment(&o.At))
	}
}

// longestValue is how much of a value a table shows, in characters.
const longestValue = 60

func brief(value any) string {
	text, ok := value.(string)
	if !ok {
		data, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		text = string(data)
	}
	if runes := []rune(text); len(runes) > longestValue {
		return string(runes[:longestValue]) + "…"
	}
	return text
}
