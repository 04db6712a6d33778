package main

import (
	"context"
	"io"
)

type orgCommand struct {
	Create orgCreateCommand `cmd:"" help:"Make an organization and print its id."`
	List   orgListCommand   `cmd:"" help:"List organizations."`
}

type orgCreateCommand struct {
	remote
	Name string `arg:"" help:"Its name, for people."`
}

// Run makes the organization.
func (c *orgCreateCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	created, err := client.RegisterOrganization(ctx, c.Name)
	if err != nil {
		return err
	}
	return c.print(t.out, created, func(w io.Writer) { row(w, created.ID) })
}

type orgListCommand struct{ remote }

// Run lists the organizations.
func (c *orgListCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.Organizations(ctx)
	if err != nil {
		return err
	}
	return c.print(t.out, list, func(w io.Writer) {
		row(w, "ID", "NAME", "SINCE")
		for _, o := range list {
			row(w, o.ID, o.Name, moment(&o.CreatedAt))
		}
	})
}
