package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	organizations "carillon/aggregates/organization"
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

// ofOrganization has the argument of every subcommand that is about an organization alone.
type ofOrganization struct {
	Organization organization `arg:"" help:"Its id, or the beginning of it."`
}

// ProvideOrganization finds the organization for every subcommand whose Run takes an id.
func (o *ofOrganization) ProvideOrganization(ctx context.Context, client *adminclient.Client) (uuid.UUID, error) {
	return o.Organization.find(ctx, client)
}

// inOrganization has the argument of every subcommand that is about something of an organization.
type inOrganization struct {
	Org organization `arg:"" help:"Id of the organization, or its beginning."`
}

// ProvideOrganization finds the organization for every subcommand whose Run takes an id.
func (o *inOrganization) ProvideOrganization(ctx context.Context, client *adminclient.Client) (uuid.UUID, error) {
	return o.Org.find(ctx, client)
}

// of connects, and finds the organization of a command that has something else to check before.
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

type orgLimitsCommand struct {
	changing
	ofOrganization
	Set []string `arg:"" optional:"" placeholder:"LIMIT=N" help:"Limits to set, such as feeds=50; LIMIT=default resets one."`
}

// Help implements kong.HelpProvider.
func (orgLimitsCommand) Help() string {
	var help strings.Builder
	help.WriteString(`Shows the limits, or sets the named ones; the others are unchanged:

  carillon org limits 0d00
  carillon org limits 0d00 destinations=20 requestsPerSecond=100 keys=default

Whatever exceeds a new limit stays.

`)
	for _, d := range organizations.Definitions() {
		_, _ = fmt.Fprintf(&help, "  %-22s %s (%d)\n", d.Limit, d.Counts, d.Default) // never fails
	}
	return help.String()
}

// Run shows or sets them.
func (c *orgLimitsCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	limits, err := adminclient.Get[adminapi.Limits](ctx, client, "organizations", id.String(), "limits")
	if err != nil {
		return err
	}
	if len(c.Set) > 0 {
		for _, change := range c.Set {
			if err := applyLimit(limits, change); err != nil {
				return err
			}
		}
		if limits, err = adminclient.Put[adminapi.Limits](ctx, client, limits.Set,
			"organizations", id.String(), "limits"); err != nil {
			return err
		}
	}
	return c.print(t.out, limits, func(w io.Writer) {
		row(w, "LIMIT", "MOST", "")
		for _, limit := range slices.Sorted(maps.Keys(limits.Limits)) {
			origin := "default"
			if _, set := limits.Set[limit]; set {
				origin = "set"
			}
			row(w, limit, limits.Limits[limit], origin)
		}
	})
}

// applyLimit reads LIMIT=N into what is set.
func applyLimit(limits adminapi.Limits, change string) error {
	limit, value, ok := strings.Cut(change, "=")
	if !ok {
		return fmt.Errorf("%q must be LIMIT=N, such as feeds=50", change)
	}
	if _, known := limits.Limits[limit]; !known {
		names := slices.Sorted(maps.Keys(limits.Limits))
		return fmt.Errorf("unknown limit %q: name one of %s", limit, strings.Join(names, ", "))
	}
	if value == "default" {
		delete(limits.Set, limit)
		return nil
	}
	most, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return fmt.Errorf("%q must be LIMIT=N, with a whole number or default", change)
	}
	limits.Set[limit] = most
	return nil
}

type orgSuspendCommand struct {
	remote
	ofOrganization
	Reason string `placeholder:"TEXT" help:"Reason, recorded in the audit trail."`
}

// Run suspends the organization.
func (c *orgSuspendCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	err := client.Post(ctx, map[string]string{"reason": c.Reason}, "organizations", id.String(), "suspend")
	return c.status(t.out, id, "suspended", err)
}

type orgResumeCommand struct {
	changing
	ofOrganization
}

// Run ends the suspension.
func (c *orgResumeCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID) error {
	return c.status(t.out, id, "registered", client.Post(ctx, nil, "organizations", id.String(), "resume"))
}

type orgDeleteCommand struct {
	changing
	Organization string `arg:"" help:"Its whole id."`
	Yes          bool   `help:"Delete without confirmation."`
}

// Run deletes the organization.
func (c *orgDeleteCommand) Run(ctx context.Context, t terminal) error {
	id, err := uuid.Parse(c.Organization)
	switch {
	case err != nil:
		return errors.New("name the organization by its whole id: carillon org list shows it")
	case !c.Yes:
		return errors.New("this deletes its keys, feeds, destinations and their secrets permanently; confirm " +
			"with --yes")
	}
	client, err := c.ProvideClient()
	if err != nil {
		return err
	}
	return c.status(t.out, id, "deleted", client.Delete(ctx, "organizations", id.String()))
}

// status prints the new status of an organization, or returns the error of the call.
func (p *printing) status(out io.Writer, id uuid.UUID, status string, err error) error {
	return p.answer(out, map[string]any{"id": id, "status": status}, err, func(w io.Writer) { row(w, id, status) })
}
