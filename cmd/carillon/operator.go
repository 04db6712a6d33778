package main

import (
	"context"
	"io"
	"time"
)

type operatorCommand struct {
	Issue  operatorIssueCommand  `cmd:"" help:"Admit an operator: make a token and print it. It can't be shown again."`
	List   operatorListCommand   `cmd:"" help:"List operators' tokens, ended ones too."`
	Rotate operatorRotateCommand `cmd:"" help:"Make another token of an operator and print it. The one before goes on for the overlap."`
	Revoke operatorRevokeCommand `cmd:"" help:"End all tokens of an operator at once."`
}

type operatorIssueCommand struct {
	remote
	Name    string `arg:"" help:"Who it is: lower-case letters, digits and . _ @ -, such as ann or ann@example.org."`
	Expires string `aliases:"expires-at" placeholder:"WHEN" help:"When it ends: a time such as 2027-01-01T00:00:00Z, or from now, such as 720h. Default: never."`
}

// Help implements kong.HelpProvider.
func (operatorIssueCommand) Help() string {
	return `The token may do what the admin token may, which stays as the way in. What is done with it is on record as done by
operator:NAME. The operator uses it in the place of the admin token:

  CARILLON_ADMIN_TOKEN=co_… carillon source pause ID --reason "…"`
}

// Run makes the token.
func (c *operatorIssueCommand) Run(ctx context.Context, t terminal) error {
	expires, err := expiry(c.Expires, time.Now())
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	issued, err := client.IssueOperatorToken(ctx, c.Name, expires)
	if err != nil {
		return err
	}
	return c.print(t.out, issued, func(w io.Writer) { row(w, issued.Token) })
}

type operatorListCommand struct{ remote }

// Run lists the tokens.
func (c *operatorListCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	list, err := client.OperatorTokens(ctx)
	if err != nil {
		return err
	}
	return c.print(t.out, list, func(w io.Writer) { listCredentials(w, list) })
}

type operatorRotateCommand struct {
	remote
	Name    string        `arg:"" help:"Name of the operator."`
	Overlap time.Duration `default:"24h" help:"How long the token before goes on, up to 720h; 0s: it ends at once."`
}

// Run makes the token.
func (c *operatorRotateCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	issued, err := client.RotateOperatorToken(ctx, c.Name, c.Overlap)
	if err != nil {
		return err
	}
	return c.print(t.out, issued, func(w io.Writer) { row(w, issued.Token) })
}

type operatorRevokeCommand struct {
	remote
	Name string `arg:"" help:"Name of the operator."`
}

// Run ends the tokens.
func (c *operatorRevokeCommand) Run(ctx context.Context, t terminal) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := client.RevokeOperator(ctx, c.Name); err != nil {
		return err
	}
	return c.print(t.out, map[string]string{"revoked": c.Name}, func(w io.Writer) { row(w, "revoked "+c.Name) })
}
