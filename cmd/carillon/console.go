package main

import (
	"context"
	"io"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type consoleCommand struct {
	changing
	Org    organization `arg:"" help:"Id of the organization, or its beginning."`
	As     string       `required:"" placeholder:"NAME" help:"The person whom the link signs in. Sessions and the audit trail name them."`
	Scopes []string     `placeholder:"SCOPE,…" help:"Scopes of the session: some of read, write, secrets. Default: all."`
}

// Run makes the link.
func (c *consoleCommand) Run(ctx context.Context, t terminal) error {
	client, org, err := c.of(ctx, c.Org)
	if err != nil {
		return err
	}
	visitor := adminclient.NewConsoleLink{As: c.As, Scopes: c.Scopes}
	link, err := adminclient.Post[adminapi.ConsoleLink](
		ctx, client, visitor, "organizations", org.String(), "console-link")
	return c.answer(t.out, link, err, func(w io.Writer) { row(w, link.URL) })
}
