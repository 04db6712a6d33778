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
	Show happeningShowCommand `cmd:"" help:"Show an event: each field, where its value comes from, and what other sources say."`
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

func happeningRows(w io.Writer, h adminapi.Happening) {
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
