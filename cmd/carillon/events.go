package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/instant"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

type eventsCommand struct {
	List eventsListCommand `cmd:"" default:"withargs" help:"List published events, those with the newest time first."`
	Show eventsShowCommand `cmd:"" help:"Show an event: who got it, and who did not and why."`
	Tail eventsTailCommand `cmd:"" help:"Print events as they are published."`
}

type eventsListCommand struct {
	asking
	Type    string   `placeholder:"TYPE" help:"Only events of this type, or one of several: news.*,event.item.added."`
	Subject string   `help:"Only events about this subject."`
	Feed    string   `placeholder:"ID" help:"Only events of this feed."`
	Since   timeFlag `placeholder:"TIME" help:"Only events from this time on: 1h, 7d or 2026-11-21T12:00:00Z."`
	Until   timeFlag `placeholder:"TIME" help:"Only events up to this time, or after the end of a list before."`
	Limit   int      `default:"50" help:"Number of events, at most 100 (${default})."`
}

// Run lists events.
func (c *eventsListCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/events" + queryOf(c.Limit, map[string]string{
		"type":    c.Type,
		"subject": c.Subject,
		"feedId":  c.Feed,
		"since":   c.Since.at(t),
		"until":   c.Until.at(t),
	})
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, l httpapi.Stretch[query.PublishedEvent]) {
		row(w, "ID", "TIME", "TYPE", "SUBJECT")
		for _, e := range l.Items {
			row(w, e.ID, e.Time, e.Type, orDash(e.Subject))
		}
		more(w, l)
	})
}

type eventsShowCommand struct {
	asking
	ID    anID `arg:"" help:"The event's id."`
	Limit int  `default:"50" help:"Number of destinations, at most 100 (${default})."`
}

// Run shows an event.
func (c *eventsShowCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/events/" + c.ID.UUID().String() + queryOf(c.Limit, nil)
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, e httpapi.EventDetail) {
		row(w, "id", e.ID)
		row(w, "type", e.Type)
		row(w, "subject", orDash(e.Subject))
		row(w, "time", e.Time)
		row(w, "published", e.PublishedAt)
		row(w, "sequence", orDash(e.Sequence))
		row(w, "destinations", recipientsText(e))
		row(w)
		row(w, "DESTINATION", "NAME", "DELIVERY", "STATUS")
		for _, r := range e.Recipients.Items {
			if r.Delivery == nil {
				row(w, r.DestinationID, r.Name, "-", orDash(r.Reason))
				continue
			}
			row(w, r.DestinationID, r.Name, r.Delivery.ID, r.Delivery.State)
		}
		if e.Recipients.Pagination.HasMore {
			row(w, "There are more: --limit, or --json and the API's offset.")
		}
	})
}

// recipientsText counts the destinations of an event: by the states of their deliveries, and those without one.
func recipientsText(e httpapi.EventDetail) string {
	var parts []string
	for _, state := range deliverystate.States() {
		if n := e.Deliveries[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if e.MissedBy > 0 || len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("%d without a delivery", e.MissedBy))
	}
	return strings.Join(parts, ", ")
}

type eventsTailCommand struct {
	asking
	Type  string        `placeholder:"TYPE" help:"Only events of this type, or one of several: news.*,event.item.added."`
	Every time.Duration `default:"1s" help:"Time between two looks (${default})."`
}

// tailWindow is how far back the time of a new event may lie.
const tailWindow = 5 * time.Minute

// Help implements kong.HelpProvider.
func (eventsTailCommand) Help() string {
	return `Looks at all events of the last 5 minutes, and prints those that were not there before. An event whose own time
lies further back is not among them. With --json, each is a line. Ctrl-C ends it.`
}

// Validate implements kong.Validatable.
func (c *eventsTailCommand) Validate() error {
	if c.Every < 100*time.Millisecond {
		return fmt.Errorf("--every must be 100ms or more; it is %s", c.Every)
	}
	return nil
}

// Run prints events until ctx ends.
func (c *eventsTailCommand) Run(ctx context.Context, t terminal) error {
	client, prefix, err := c.open()
	if err != nil {
		return err
	}
	known := map[uuid.UUID]bool{}
	ticker := time.NewTicker(c.Every)
	defer ticker.Stop()
	for first := true; ; first = false {
		recent, err := c.recent(ctx, client, prefix)
		if err != nil {
			return err
		}
		before := known
		known = make(map[uuid.UUID]bool, len(recent))
		for _, raw := range slices.Backward(recent) {
			var event query.PublishedEvent
			if err := json.Unmarshal(raw, &event); err != nil {
				return err
			}
			known[event.ID] = true
			if !first && !before[event.ID] {
				c.print(t.out, event, raw)
			}
		}
		if first {
			_, _ = fmt.Fprintln(t.err, "waiting for events; Ctrl-C ends")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// recent returns all events of the window, those with the newest time first.
func (c *eventsTailCommand) recent(
	ctx context.Context, client *apiclient.Client, prefix string,
) (all []jsontext.Value, err error) {
	const most = 100
	flags := map[string]string{"type": c.Type, "since": instant.Text(time.Now().Add(-tailWindow))}
	for {
		var page httpapi.Stretch[jsontext.Value]
		path := prefix + "/events/events" + queryOf(most, flags)
		if err := client.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Pagination.Until == nil {
			return all, nil
		}
		flags["until"] = *page.Pagination.Until
	}
}

// print writes one event as a line.
func (c *eventsTailCommand) print(out io.Writer, event query.PublishedEvent, raw jsontext.Value) {
	if c.JSON {
		_, _ = fmt.Fprintf(out, "%s\n", raw)
		return
	}
	row(out, event.Time, event.Type, orDash(event.Subject), event.ID)
}
