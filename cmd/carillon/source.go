package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type sourceCommand struct {
	Add     sourceAddCommand     `cmd:"" help:"Register a source and print its id, by which feeds attach it."`
	List    sourceListCommand    `cmd:"" help:"List sources and their state."`
	Collect sourceCollectCommand `cmd:"" help:"Collect a source now."`
	Pause   sourcePauseCommand   `cmd:"" help:"Pause a source, for example if its owner objects."`
	Set     sourceSetCommand     `cmd:"" help:"Set how the pages of a source are read."`
	Resume  sourceResumeCommand  `cmd:"" help:"Resume a source and visit it immediately."`
	Try     sourceTryCommand     `cmd:"" help:"Read a page or calendar and show its events, without a server."`
}

type sourceAddCommand struct {
	changing
	Type     string `arg:"" enum:"${sourceTypes}" help:"${oneSourceType}."`
	Where    string `arg:"" help:"The page's URL, or the account's handle."`
	Timezone string `placeholder:"ZONE" help:"IANA time zone of dates without one, such as Europe/Rome."`
}

// Help implements kong.HelpProvider.
func (sourceAddCommand) Help() string {
	return `A page or calendar has a URL, an account on a platform has a handle:

  carillon source add site https://example.org/events --timezone Europe/Rome
  carillon source add instagram @townhall

Adding the same again prints the same id.`
}

// Run adds the source.
func (c *sourceAddCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	added := adminclient.NewSource{Type: c.Type, Timezone: c.Timezone}
	if source.IsPage(c.Type) {
		added.URL = c.Where
	} else {
		added.Handle = c.Where
	}
	created, err := client.AddSource(ctx, added)
	return c.answer(t.out, created, err, func(w io.Writer) { row(w, created.ID) })
}

type sourceListCommand struct {
	remote
	State string `placeholder:"STATE" help:"Filter by state: registered, collecting, ok, failing, needs_credentials, needs_javascript or paused."`
	Type  string `placeholder:"TYPE" help:"Filter by type: ${oneSourceType}."`
	Q     string `placeholder:"TEXT" help:"Filter by a part of the address or handle."`
}

// Help implements kong.HelpProvider.
func (sourceListCommand) Help() string {
	return `PAGES, NEW, REVISED and STALE are what the last walk that went through has come to: the pages that
it asked for, and the events that it found to be new, changed, and gone. TRIED is the last attempt, LAST the
last one that went through. REMARK says what is wrong, and what to do about it.`
}

// Run lists the sources.
func (c *sourceListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := client.Sources(ctx, adminclient.SourceFilter{State: c.State, Type: c.Type, Text: c.Q})
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "ID", "TYPE", "WHERE", "STATE", "SINCE", "EVENTS", "PAGES", "NEW", "REVISED", "STALE", "FEEDS",
			"BACKFILL", "TRIED", "LAST", "EVERY", "NEXT", "REMARK")
		for _, s := range list {
			row(w, s.ID, s.Type, s.URL+s.Handle, state(s), s.Since, s.Observed, s.Pages, s.New, s.Revised,
				s.Stale, s.Feeds,
				backfill(w, s.Backfills), s.StartedAt, s.CompletedAt, every(s), s.DueAt,
				remark(s))
		}
	})
}

// backfill sums up what a source's backfills have added to its feeds, and since when the first of those that run
// does.
func backfill(w io.Writer, all []query.Backfill) string {
	added, running := 0, 0
	var since time.Time
	for _, b := range all {
		added += b.Added
		if b.Running {
			if running++; running == 1 {
				since = b.Since
			}
		}
	}
	if running == 0 {
		return strconv.Itoa(added)
	}
	return fmt.Sprintf("%d, %d of %d run since %s", added, running, len(all), moment(w, &since))
}

// state describes a source, and the progress of its walk.
func state(s query.Source) string {
	if s.Asked == nil {
		return s.State
	}
	return fmt.Sprintf("%s %d/%d", s.State, *s.Asked, *s.Linked)
}

// every is the time between two walks.
func every(s query.Source) string {
	text := (time.Duration(s.Interval) * time.Second).Round(time.Minute).String()
	return strings.TrimSuffix(text, "0s")
}

// remark returns what is wrong with a source, and the remedy.
func remark(s query.Source) string {
	var text string
	switch {
	case s.PausedAt != nil:
		text = s.PausedFor + " (" + s.PausedBy + ")"
	case s.Message != "":
		text = s.Message
	case len(s.Notes) > 0:
		text = s.Notes[0].Text
	}
	if s.Advice != "" {
		text += ". What to do: " + s.Advice
	}
	return text
}

type sourcePauseCommand struct {
	remote
	ofSource
	Reason string `required:"" placeholder:"TEXT" help:"Why, and whose wish it is. \"carillon source list\" shows it."`
}

// Help implements kong.HelpProvider.
func (sourcePauseCommand) Help() string {
	return `Stops visits of the source until "carillon source resume"; a visit in progress ends at its next page.
Its known events stay in the feeds, and it can be attached to others. Pausing it again replaces the reason.`
}

// Run pauses the source.
func (c *sourcePauseCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	err := client.Post(ctx, map[string]string{"reason": c.Reason}, "sources", id.String(), "pause")
	return c.answer(t.out, adminapi.Created{ID: id}, err, func(w io.Writer) {
		row(w, "paused; \"carillon source resume\" has it visited again")
	})
}

type sourceResumeCommand struct {
	changing
	ofSource
}

// Run resumes the source.
func (c *sourceResumeCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	err := client.Post(ctx, nil, "sources", id.String(), "resume")
	return c.answer(t.out, adminapi.Created{ID: id}, err, func(w io.Writer) {
		row(w, "resumed; it is visited at once if a feed has it")
	})
}

// sourceSettings are the flags of source.Settings.
type sourceSettings struct {
	IgnoreLists bool   `help:"Leave out lists without any markup, whose events are a guess."`
	Event       string `placeholder:"SELECTOR" help:"CSS selector of the elements that are events."`
	Title       string `placeholder:"SELECTOR" help:"Within an event: its title. Default: a heading or a link."`
	Start       string `placeholder:"SELECTOR" help:"Within an event: its start. Default: the only date."`
	End         string `placeholder:"SELECTOR" help:"Within an event: its end."`
	Place       string `placeholder:"SELECTOR" help:"Within an event: its place."`
	Link        string `placeholder:"SELECTOR" help:"Within an event: the link to its page. Default: that of the title."`
}

func (s *sourceSettings) settings() source.Settings {
	return source.Settings{IgnoreLists: s.IgnoreLists, Selectors: source.Selectors{
		Event: s.Event,
		Title: s.Title,
		Start: s.Start,
		End:   s.End,
		Place: s.Place,
		Link:  s.Link,
	}}
}

type sourceSetCommand struct {
	remote
	ofSource
	sourceSettings
}

// Help implements kong.HelpProvider.
func (sourceSetCommand) Help() string {
	return `Replaces all settings: what is not named has its default again. Elements that are selected count in place of
all else that a page shows. Try them first:

  carillon source try https://example.org/events --event '#programme > li' --title b --start .when
  carillon source set 3f2a --event '#programme > li' --title b --start .when
  carillon source set 3f2a --ignore-lists
  carillon source set 3f2a                     # the defaults

Selectors have tags, classes, ids, attributes and positions (tr:nth-child(2)), with descendants and children (>).`
}

// Run sets them.
func (c *sourceSetCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	changed, err := adminclient.Put[adminapi.Created](ctx, client, c.settings(), "sources", id.String(), "settings")
	return c.answer(t.out, changed, err, func(w io.Writer) { row(w, "set; its pages are read again at once") })
}
