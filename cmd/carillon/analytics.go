package main

import (
	"context"
	"io"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
)

type analyticsCommand struct {
	Login  analyticsLoginCommand  `cmd:"" help:"Create a read-only login for an analyst, and print its connection string once."`
	List   analyticsListCommand   `cmd:"" help:"List the logins of analysts."`
	Delete analyticsDeleteCommand `cmd:"" help:"Delete the login of an analyst and end its sessions."`
}

type analyticsLoginCommand struct {
	changing

	Name string `arg:"" help:"Name of the Postgres user, such as ana."`
}

// Help implements kong.HelpProvider.
func (analyticsLoginCommand) Help() string {
	return `The login reads the views of the schema analytics, and nothing else:

  psql "$(carillon analytics login ana)"

A private Postgres takes it at its socket, which only the user that runs the server can open, and at
CARILLON_ANALYTICS_ADDR if the server has one. The password is in the connection string and is not kept.`
}

// Run creates the login.
func (c *analyticsLoginCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	named := adminapi.AnalystLogin{Name: c.Name}
	login, err := adminclient.Post[adminapi.NewAnalystLogin](ctx, client, named, "analytics", "logins")
	return c.answer(t.out, login, err, func(w io.Writer) { row(w, login.Connection) })
}

type analyticsListCommand struct{ remote }

// Run lists the logins.
func (c *analyticsListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := adminclient.List[adminapi.AnalystLogin](ctx, client, "analytics", "logins")
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "NAME")
		for _, login := range list {
			row(w, printable(login.Name))
		}
	})
}

type analyticsDeleteCommand struct {
	changing

	Name string `arg:"" help:"Name of the login."`
}

// Run deletes the login.
func (c *analyticsDeleteCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.ended(t.out, "deleted", c.Name, client.Delete(ctx, "analytics", "logins", c.Name))
}
