package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type happeningCommand struct {
	Show  happeningShowCommand  `cmd:"" help:"Show an event: each field with its source, and the values of other sources."`
	Split happeningSplitCommand `cmd:"" help:"Split events that were merged by mistake. They are never merged again."`
}

type happeningShowCommand struct {
	remote
	ID anID `arg:"" help:"Id of the event: the eventId of its items."`
}

// Help implements kong.HelpProvider.
func (happeningShowCommand) Help() string {
	return `Lines marked "from" gave the value, or a part of it; lines marked "other" have a different value
that was not used: the platform's record precedes the event's own page, then listings, then posts. Of equals
the first one counts, and the newest for dates and statuses. --json shows everything.`
}

// Run shows the event.
func (c *happeningShowCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	shown, err := client.Happening(ctx, c.ID.UUID())
	return c.answer(t.out, shown, err, func(w io.Writer) { happeningRows(w, shown) })
}

type happeningSplitCommand struct {
	changing
	ID anID `arg:"" help:"Id of the remaining event, or of an event merged into it."`
}

// Help implements kong.HelpProvider.
func (happeningSplitCommand) Help() string {
	return `Merged events become separate again, with their items, in the feeds that their sources
fill. No webhook is sent. "carillon happening show" lists merged events and reasons.`
}

// Run splits the event.
func (c *happeningSplitCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	split, err := client.SplitHappening(ctx, c.ID.UUID())
	return c.answer(t.out, split, err, func(w io.Writer) {
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
		row(w, "no source shows it since "+moment(w, h.StaleSince))
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
		row(w, "", what, brief(o.Value), o.SourceID.String()[:8], where, o.At)
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
