package main

import (
	"context"
	"io"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type consoleCommand struct {
	changing
	inOrganization
	As     string   `required:"" placeholder:"NAME" help:"The person whom the link signs in. Sessions and the audit trail name them."`
	Scopes []string `placeholder:"SCOPE,…" help:"Scopes of the session: some of read, write, secrets. Default: all."`
}

// Run makes the link.
func (c *consoleCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, org uuid.UUID) error {
	visitor := adminclient.NewConsoleLink{As: c.As, Scopes: c.Scopes}
	link, err := adminclient.Post[adminapi.ConsoleLink](
		ctx, client, visitor, "organizations", org.String(), "console-link")
	return c.answer(t.out, link, err, func(w io.Writer) { row(w, link.URL) })
}
