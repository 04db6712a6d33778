package main

import (
	"context"
	"io"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type orgCommand struct {
	Create orgCreateCommand `cmd:"" help:"Create an organization and print its id."`
	List   orgListCommand   `cmd:"" help:"List organizations."`
	Limits orgLimitsCommand `cmd:"" help:"Show or set the limits of an organization."`

	Certificate orgCertificateCommand `cmd:"" help:"Client certificates, for receivers that require mutual TLS."`

	Suspend orgSuspendCommand `cmd:"" help:"Suspend an organization: reject its keys, pause its deliveries."`
	Resume  orgResumeCommand  `cmd:"" help:"Resume an organization: accept its keys, send waiting deliveries."`
	Delete  orgDeleteCommand  `cmd:"" help:"Delete an organization permanently, with everything that it owns."`
}

type orgCreateCommand struct {
	changing
	Name string `arg:"" help:"Display name."`
}

// Run makes the organization.
func (c *orgCreateCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	created, err := adminclient.Post[adminapi.Created](ctx, client, map[string]string{"name": c.Name}, "organizations")
	return c.answer(t.out, created, err, func(w io.Writer) { row(w, created.ID) })
}

type orgListCommand struct{ remote }

// Run lists the organizations.
func (c *orgListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := adminclient.List[query.Organization](ctx, client, "organizations")
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "ID", "NAME", "SINCE", "STATUS")
		for _, o := range list {
			row(w, o.ID, o.Name, o.CreatedAt, o.Status)
		}
	})
}

// organization is the id of one, or its beginning.
type organization struct{ idStart }

// of connects, and finds the organization that a command is about.
func (r *remote) of(ctx context.Context, o organization) (*adminclient.Client, uuid.UUID, error) {
	client, err := r.ProvideClient()
	if err != nil {
		return nil, uuid.Nil, err
	}
	id, err := o.find(ctx, client)
	return client, id, err
}

func (o organization) find(ctx context.Context, client *adminclient.Client) (uuid.UUID, error) {
	return o.idStart.find("organization", "org list", func() ([]uuid.UUID, error) {
		list, err := adminclient.List[query.Organization](ctx, client, "organizations")
		ids := make([]uuid.UUID, len(list))
		for i, o := range list {
			ids[i] = o.ID
		}
		return ids, err
	})
}
