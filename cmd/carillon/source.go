package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type sourceCommand struct {
	Add     sourceAddCommand     `cmd:"" help:"Make a source known and print its id. Feeds attach it by that."`
	List    sourceListCommand    `cmd:"" help:"List sources and how their collection goes."`
	Collect sourceCollectCommand `cmd:"" help:"Collect a source now."`
	Try     sourceTryCommand     `cmd:"" help:"Read a page or calendar and show its events, without a server."`
}

type sourceAddCommand struct {
	remote
	Type     string `arg:"" enum:"site,sitemap,siteIndexPage,instagram,facebook,tiktok,twitter" help:"site, sitemap, siteIndexPage, instagram, facebook, tiktok or twitter."`
	Where    string `arg:"" help:"The page's URL, or the account's handle."`
	Timezone string `placeholder:"ZONE" help:"IANA name of the zone of dates that name none, such as Europe/Rome."`
}

// Help implements kong.HelpProvider.
func (sourceAddCommand) Help() string {
	return `A page or calendar has a URL, an account on a platform has a handle:

  carillon source add site https://example.org/events --timezone Europe/Rome
  carillon source add instagram @townhall

Adding the same again prints the same id.`
}

// Run adds the source.
func (c *sourceAddCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	source := adminclient.NewSource{Type: c.Type, Timezone: c.Timezone}
	switch c.Type {
	case "site", "sitemap", "siteIndexPage":
		source.URL = c.Where
	default:
		source.Handle = c.Where
	}
	created, err := client.AddSource(ctx, source)
	if err != nil {
		return err
	}
	return c.print(t.out, created, func(w io.Writer) { row(w, created.ID) })
}

type sourceListCommand struct{ remote }

// Run lists the sources.
func (c *sourceListCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.Sources(ctx)
	if err != nil {
		return err
	}
	return c.print(t.out, list, func(w io.Writer) {
		row(w, "ID", "TYPE", "WHERE", "STATE", "EVENTS", "FEEDS", "BACKFILL", "LAST", "NEXT", "REMARK")
		for _, s := range list {
			row(w, s.ID, s.Type, s.URL+s.Handle, state(s), s.Observed, s.Feeds, backfill(s.Backfills), moment(s.CompletedAt), moment(s.DueAt), remark(s))
		}
	})
}

// backfill sums up what a source's backfills have added to its feeds, and since when the first of those that run does.
func backfill(all []adminapi.Backfill) string {
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
	return fmt.Sprintf("%d, %d of %d run since %s", added, running, len(all), moment(&since))
}

// state says how a source does, and how far the walk is that is under way.
func state(s adminapi.Source) string {
	if s.Progress == nil {
		return s.State
	}
	return fmt.Sprintf("%s %d/%d", s.State, s.Progress.Asked, s.Progress.Linked)
}

func remark(s adminapi.Source) string {
	if s.Message != "" || len(s.Notes) == 0 {
		return s.Message
	}
	return s.Notes[0].Text
}
