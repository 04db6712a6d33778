package main

import (
	"context"
	"io"
)

type consoleCommand struct {
	remote
	Org organization `arg:"" help:"Id of the organization, or its beginning."`
}

// Run makes the link.
func (c *consoleCommand) Run(ctx context.Context, t terminal) error {
	client, org, err := c.of(ctx, c.Org)
	if err != nil {
		return err
	}
	link, err := client.ConsoleLink(ctx, org)
	if err != nil {
		return err
	}
	return c.print(t.out, link, func(w io.Writer) { row(w, link.URL) })
}
