package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/schollz/progressbar/v3"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/config"
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

type publishCommand struct {
	changing
	File string `arg:"" help:"A file with one JSON object a line, or - for standard input."`
}

// Help implements kong.HelpProvider.
func (publishCommand) Help() string {
	return `Each line is one event:

  {"id": UUID, "type": "news.item.added", "source": "/news/local", "subject": "item-7", "time": "2026-11-21T12:00:00Z",
   "feedType": "news", "feedId": UUID, "organizationId": UUID, "data": {…}}

Required are type, source, data, and a feed or an organization that exists. The source is a URI-reference, the
time from 1970 to a day ahead. The data must match the type's
schema, see GET /events/types. An event with an id is published once, however often it is sent: after a failure,
send the file again. Another event with the same id is refused, by its line. If a file of at most 1 MiB has a
line that is refused, nothing of it is published; of a larger one, and of standard input, the lines before it
are.`
}

// Run publishes the file, with a progress bar on a terminal.
func (c *publishCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	events, size := t.in, int64(-1)
	if c.File != "-" {
		file, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		if info.IsDir() {
			return fmt.Errorf("%s is a directory: name a file, or - for standard input", c.File)
		}
		events = file
		if info.Mode().IsRegular() {
			size = info.Size()
		}
	}
	if config.IsTerminal(t.err) && size != 0 {
		bar := progressbar.NewOptions64(size, progressbar.OptionSetWriter(t.err), progressbar.OptionShowBytes(true),
			progressbar.OptionSetDescription("publishing"), progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth())
		defer func() { _ = bar.Finish() }()
		events = io.TeeReader(events, bar)
	}
	published, err := client.Publish(ctx, events, size)
	return c.answer(t.out, published, err, func(w io.Writer) {
		row(w, fmt.Sprintf("published %d events", published.Published))
	})
}
