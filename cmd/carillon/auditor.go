package main

import (
	"context"
	"io"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type auditorCommand struct {
	Issue  auditorIssueCommand  `cmd:"" help:"Create a token that reads the audit trail, and print it once."`
	List   auditorListCommand   `cmd:"" help:"List auditors' tokens, including expired and revoked ones."`
	Revoke auditorRevokeCommand `cmd:"" help:"Revoke an auditor's token immediately."`
}

type auditorIssueCommand struct {
	changing
	Name         string       `arg:"" help:"Name of the auditor."`
	Organization organization `placeholder:"ORG" help:"Restrict the token to one organization: its id, or the beginning. Default: all."`
	Expires      expiryFlag   `aliases:"expires-at" placeholder:"WHEN" help:"Expiry: a time such as 2027-01-01T00:00:00Z, or a duration such as 720h. Default: never."`
}

// Help implements kong.HelpProvider.
func (auditorIssueCommand) Help() string {
	return `The token reads the audit trail of all organizations and the state of the projections, and nothing else; with
--organization only the trail of that one, without a trace of others. An auditor uses it
instead of the admin token:

  CARILLON_ADMIN_TOKEN=ca_… carillon audit destination ID --admin-addr https://carillon.example`
}

// Run makes the token.
func (c *auditorIssueCommand) Run(ctx context.Context, t terminal) error {
	expires, err := c.Expires.at(time.Now())
	if err != nil {
		return err
	}
	client, err := c.ProvideClient()
	if err != nil {
		return err
	}
	var only uuid.UUID
	if c.Organization.idStart != "" {
		if only, err = c.Organization.find(ctx, client); err != nil {
			return err
		}
	}
	token := adminclient.NewToken{Name: c.Name, Organization: only, ExpiresAt: expires}
	issued, err := adminclient.Post[adminapi.IssuedToken](ctx, client, token, "auditors")
	return c.answer(t.out, issued, err, func(w io.Writer) { row(w, issued.Token) })
}

type auditorListCommand struct{ remote }

// Run lists the tokens.
func (c *auditorListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := adminclient.List[query.AuditorCredential](ctx, client, "auditors")
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "ID", "NAME", "ORGANIZATION", "SINCE", "EXPIRES", "USED", "STATE")
		for _, t := range list {
			of := "all"
			if t.Organization != nil {
				of = t.Organization.String()
			}
			credentialRow(w, t.Credential, of)
		}
	})
}

type auditorRevokeCommand struct {
	changing
	Auditor string `arg:"" help:"Id of the token: the 8 characters after ca_. Never the whole token."`
}

// Run ends the token.
func (c *auditorRevokeCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.ended(t.out, "revoked", c.Auditor, client.Delete(ctx, "auditors", c.Auditor))
}
