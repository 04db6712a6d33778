package main

import (
	"context"
	"io"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

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
	Source idStart `arg:"" help:"Id of the source, or its beginning."`
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
func (c *sourceSetCommand) Run(ctx context.Context, t terminal) error {
	client, id, err := c.source(ctx, c.Source)
	if err != nil {
		return err
	}
	changed, err := adminclient.Put[adminapi.Created](ctx, client, c.settings(), "sources", id.String(), "settings")
	return c.answer(t.out, changed, err, func(w io.Writer) { row(w, "set; its pages are read again at once") })
}
