package main

import (
	"context"
	"io"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type operatorCommand struct {
	Issue  operatorIssueCommand  `cmd:"" help:"Create a token for an operator and print it once."`
	List   operatorListCommand   `cmd:"" help:"List operators' tokens, including expired and revoked ones."`
	Rotate operatorRotateCommand `cmd:"" help:"Rotate an operator's token: print a new one. The old one works during the overlap."`
	Revoke operatorRevokeCommand `cmd:"" help:"Revoke all tokens of an operator immediately."`
}

type operatorIssueCommand struct {
	changing
	Name    string     `arg:"" help:"Name: lower-case letters, digits and . _ @ -, such as ann or ann@example.org."`
	Expires expiryFlag `aliases:"expires-at" placeholder:"WHEN" help:"Expiry: a time such as 2027-01-01T00:00:00Z, or a duration such as 720h. Default: never."`
}

// Help implements kong.HelpProvider.
func (operatorIssueCommand) Help() string {
	return `The token has the rights of the admin token, which stays valid. Actions are recorded under
operator:NAME. The operator uses it instead of the admin token:

  CARILLON_ADMIN_TOKEN=co_… carillon source pause ID --reason "…"`
}

// Run makes the token.
func (c *operatorIssueCommand) Run(ctx context.Context, t terminal) error {
	expires, err := c.Expires.at(time.Now())
	if err != nil {
		return err
	}
	client, err := c.ProvideClient()
	if err != nil {
		return err
	}
	token := adminclient.NewToken{Name: c.Name, ExpiresAt: expires}
	issued, err := adminclient.Post[adminapi.IssuedToken](ctx, client, token, "operators")
	return c.answer(t.out, issued, err, func(w io.Writer) { row(w, issued.Token) })
}

type operatorListCommand struct{ remote }

// Run lists the tokens.
func (c *operatorListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	list, err := adminclient.List[query.Credential](ctx, client, "operators")
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "ID", "NAME", "SINCE", "EXPIRES", "USED", "STATE")
		for _, token := range list {
			credentialRow(w, token)
		}
	})
}

type operatorRotateCommand struct {
	changing
	Name    string        `arg:"" help:"Name of the operator."`
	Overlap time.Duration `default:"24h" help:"Overlap during which the old token works, up to 720h; 0s: none."`
}

// Run makes the token.
func (c *operatorRotateCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	overlap := adminclient.Overlap{Seconds: int(c.Overlap.Seconds())}
	issued, err := adminclient.Post[adminapi.IssuedToken](ctx, client, overlap, "operators", c.Name, "rotate")
	return c.answer(t.out, issued, err, func(w io.Writer) { row(w, issued.Token) })
}

type operatorRevokeCommand struct {
	changing
	Name string `arg:"" help:"Name of the operator."`
}

// Run ends the tokens.
func (c *operatorRevokeCommand) Run(ctx context.Context, t terminal, client *adminclient.Client) error {
	return c.ended(t.out, "revoked", c.Name, client.Delete(ctx, "operators", c.Name))
}
