package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/app"
	"carillon/command/catalog"
)

type triggerCommand struct {
	changing
	Type    string `arg:"" help:"An event type, such as news.item.added."`
	Data    string `placeholder:"JSON" help:"Members of the data, in place of the example's."`
	Subject string `help:"Subject of the event (example/1)."`
	Count   int    `default:"1" placeholder:"N" help:"Number of events (${default})."`
	Feed    anID   `placeholder:"ID" help:"Publish in this feed. Without one, in the development organization."`

	HTTPAddr string `name:"http-addr" group:"Server" env:"CARILLON_HTTP_ADDR" placeholder:"HOST:PORT" help:"Address of the API, for the command that is shown."`
}

// Help implements kong.HelpProvider.
func (triggerCommand) Help() string {
	return `Publishes an example of an event, made from the schema of its type, to the development organization of a
server that was started with --dev:

  carillon trigger news.item.added
  carillon trigger event.occurrence.changed --subject concert/7 --data '{"status":"cancelled"}' --count 3

The types are: ` + strings.Join(typeNames(), ", ") + "."
}

const maxTriggered = 10_000

// Validate implements kong.Validatable.
func (c *triggerCommand) Validate() error {
	if err := c.because.Validate(); err != nil {
		return err
	}
	if c.Count < 1 || c.Count > maxTriggered {
		return fmt.Errorf("--count must be 1 to %d; it is %d", maxTriggered, c.Count)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(c.Data), &members); c.Data != "" && err != nil {
		return fmt.Errorf(`--data must be a JSON object such as {"title":"Hello"}: %w`, err)
	}
	return nil
}

func typeNames() (names []string) {
	types, _ := catalog.Types() // they are embedded
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names
}

// Run publishes the events.
func (c *triggerCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	events, ids, err := c.events()
	if err != nil {
		return err
	}
	published, err := client.Publish(ctx, bytes.NewReader(events), int64(len(events)))
	return c.answer(t.out, triggered{published.Published, ids}, err, func(w io.Writer) {
		row(w, fmt.Sprintf("published %d %s", published.Published, c.Type))
		row(w, "see who gets it:  "+c.show(ids[len(ids)-1]))
	})
}

// triggered is the result.
type triggered struct {
	Published int      `json:"published"`
	IDs       []string `json:"ids"`
}

// show returns the command line that shows an event.
func (c *triggerCommand) show(id string) string {
	command := "carillon events show " + id
	if c.DataDir != "./data" {
		command += " --data-dir " + app.Quoted(c.DataDir)
	}
	if c.AdminAddr != "127.0.0.1:8081" && c.HTTPAddr == "" { // the API is elsewhere most likely
		command += " --http-addr HOST:PORT"
	}
	if c.HTTPAddr != "" && c.HTTPAddr != "127.0.0.1:8080" {
		command += " --http-addr " + app.Quoted(c.HTTPAddr)
	}
	return command
}

// events returns the events, each a line, and their ids.
func (c *triggerCommand) events() (text []byte, ids []string, err error) {
	types, err := catalog.Types()
	if err != nil {
		return nil, nil, err
	}
	var lines bytes.Buffer
	for _, known := range types {
		if known.Name != c.Type {
			continue
		}
		for i := range c.Count {
			id := uuid.NewString()
			event, err := c.event(known, id, i+1)
			if err == nil {
				err = json.MarshalWrite(&lines, event, json.Deterministic(true))
			}
			if err != nil {
				return nil, nil, err
			}
			lines.WriteByte('\n')
			ids = append(ids, id)
		}
		return lines.Bytes(), ids, nil
	}
	return nil, nil, fmt.Errorf("%q is not an event type; the types are %s", c.Type, strings.Join(typeNames(), ", "))
}

func (c *triggerCommand) event(known catalog.Type, id string, number int) (map[string]any, error) {
	data, err := known.Example(uuid.NewString, time.Now())
	if err != nil {
		return nil, err
	}
	if c.Data != "" {
		members := map[string]any{}
		if err := json.Unmarshal([]byte(c.Data), &members); err != nil {
			return nil, fmt.Errorf("--data: %w", err)
		}
		maps.Copy(data, members)
	}
	event := map[string]any{
		"id":      id,
		"type":    known.Name,
		"source":  "/carillon/trigger",
		"subject": c.Subject,
		"data":    data,
	}
	if c.Subject == "" {
		event["subject"] = fmt.Sprintf("example/%d", number)
	}
	if feed := c.Feed.UUID(); feed != uuid.Nil {
		event["feedType"], event["feedId"] = known.FeedType, feed
	} else {
		event["organizationId"] = app.DevelopmentOrganization
	}
	return event, nil
}
