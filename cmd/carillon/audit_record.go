package main

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/adminclient"
	"carillon/eventstore/instant"
	"carillon/projections/audit"
	"carillon/query"
)

// recording has the flags of every subcommand that lists the record.
type recording struct {
	remote
	Since  timeFlag `placeholder:"TIME" help:"Only changes since this time: 1h, 7d or 2026-11-21T12:00:00Z."`
	Until  timeFlag `placeholder:"TIME" help:"Only changes until this time."`
	Actor  string   `placeholder:"ACTOR" help:"Only changes by this actor, such as operator:ann, key:ab12CD34 or console:bob."`
	Limit  int      `default:"50" help:"Number of changes, at most 200 (${default})."`
	Cursor string   `placeholder:"CURSOR" help:"Continue a list."`
	Export string   `placeholder:"FILE" help:"Write all of them to a file as NDJSON, oldest first; - is standard output."`
}

// list prints a page of the record, or writes the export. Without kinds, the thing is of a kind.
func (r *recording) list(
	ctx context.Context, t terminal, client *adminclient.Client, kinds, thing, kind string,
) error {
	filter := url.Values{}
	flags := map[string]string{
		"since":  r.Since.at(t),
		"until":  r.Until.at(t),
		"actor":  r.Actor,
		"kind":   kind,
		"cursor": r.Cursor,
	}
	if kinds == "" {
		flags["thing"] = thing
	}
	for name, value := range flags {
		if value != "" {
			filter.Set(name, value)
		}
	}
	if r.Export != "" {
		path := adminclient.RecordPath(kinds, thing, filter)
		return r.export(t, r.Export, changes, func(to io.Writer) error { return client.ExportRecord(ctx, path, to) })
	}
	filter.Set("limit", strconv.Itoa(r.Limit))
	page, err := client.Record(ctx, adminclient.RecordPath(kinds, thing, filter))
	if err != nil {
		return err
	}
	return r.print(t.out, page, func(w io.Writer) {
		if len(page.Items) == 0 {
			row(w, "nothing on record: check id, name and times")
			return
		}
		recordRows(w, page.Items)
		if page.Next != nil {
			row(w, "There are more: --cursor "+*page.Next)
		}
	})
}

// recordRows writes a table of entries of the record.
func recordRows(w io.Writer, entries []query.RecordEntry) {
	row(w, "TIME", "BY", "CHANGE")
	actor := 0
	for _, e := range entries {
		actor = min(max(actor, utf8.RuneCountInString(e.Actor)), maxActor)
	}
	for _, e := range entries {
		text := audit.Describe(e, audit.Thing(e), func(at time.Time) string { return instant.Shown(at, zoneOf(w)) })
		if e.Reason != nil && !strings.Contains(text, *e.Reason) {
			text += "; reason: " + *e.Reason
		}
		by := clip(e.Actor, actor)
		when := moment(w, &e.At)
		for _, part := range wrap(printable(text), maxColumns-len(when)-actor-2*columnGap) {
			row(w, when, by, part)
			when, by = "", ""
		}
	}
}

// maxActor is the width of an actor in a list.
const maxActor = 18

type auditListCommand struct {
	recording
	Kind  string   `placeholder:"KIND" help:"Only changes of one kind of things: organization, key, destination, feed, source, operator, auditor, person, secret."`
	Thing recorded `placeholder:"ID" help:"With --kind: only changes of the thing with this id or name. Destinations, feeds, sources and secrets are also named by the beginning of the id, destinations by the external id; they have the changes of their subscriptions, too."`
}

// Run lists the changes of everything.
func (c *auditListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	thing := string(c.Thing)
	if c.Kind == audit.KindDestination && thing != "" {
		id, err := c.Thing.find(ctx, client)
		if err != nil {
			return err
		}
		thing = id.String()
	}
	return c.list(ctx, t, client, "", thing, c.Kind)
}

type auditOrganizationCommand struct {
	recording
	ID   anID   `arg:"" help:"Id of the organization; deleted ones keep theirs."`
	Kind string `placeholder:"KIND" help:"Only changes of one kind of things: organization, key, destination, feed."`
}

// Run lists the changes of an organization's things.
func (c *auditOrganizationCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.list(ctx, t, client, "organizations", c.ID.UUID().String(), c.Kind)
}

// auditThingCommand is a subcommand for things that have ids. It has the name of their kind.
type auditThingCommand struct {
	recording
	ID idStart `arg:"" help:"${thing}"`
}

// Run lists the changes of a thing, and to whom it was shown.
func (c *auditThingCommand) Run(
	ctx context.Context, t terminal, client *adminclient.Client, parsed *kong.Context,
) error {
	return c.list(ctx, t, client, parsed.Selected().Name+"s", string(c.ID), "")
}

type auditOperatorCommand struct {
	recording
	Name string `arg:"" optional:"" help:"Name of the operator; \"operator\" for the admin token. Default: all."`
}

// Run lists the actions of operators.
func (c *auditOperatorCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	if c.Name == "" {
		return c.list(ctx, t, client, "", "", audit.KindOperator)
	}
	return c.list(ctx, t, client, "operators", c.Name, "")
}

type auditKeyCommand struct {
	recording
	ID string `arg:"" help:"Id of the key: the 8 characters after ck_."`
}

// Run lists the life of a key.
func (c *auditKeyCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.list(ctx, t, client, "keys", c.ID, "")
}

type auditPersonCommand struct {
	recording
	Name string `arg:"" help:"Name of the person, as the console's login link has it."`
}

// Run lists what a person changed and was shown.
func (c *auditPersonCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.list(ctx, t, client, "people", c.Name, "")
}
