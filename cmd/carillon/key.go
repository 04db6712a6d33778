package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/query"
)

type keyCommand struct {
	Issue  keyIssueCommand  `cmd:"" help:"Create an API key and print it once."`
	Rotate keyRotateCommand `cmd:"" help:"Rotate an API key: print a successor with the same scopes. The old key works during the overlap."`
	List   keyListCommand   `cmd:"" help:"List an organization's API keys, including expired and revoked ones, without secrets."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke an API key, effective within a second."`
}

type keyIssueCommand struct {
	changing
	inOrganization
	Name    string     `placeholder:"TEXT" help:"Purpose of the key."`
	Scopes  []string   `placeholder:"SCOPE,…" enum:"read,write,secrets" help:"Scopes: some of read, write, secrets (to read secrets in full). Default: all."`
	Expires expiryFlag `placeholder:"WHEN" help:"Expiry: a time such as 2027-01-01T00:00:00Z, or a duration such as 720h. Default: never."`
}

// Run makes the key.
func (c *keyIssueCommand) Run(ctx context.Context, t terminal) error {
	expires, err := c.Expires.at(time.Now())
	if err != nil {
		return err
	}
	client, org, err := c.of(ctx, c.Org)
	if err != nil {
		return err
	}
	key := adminclient.NewKey{Name: c.Name, Scopes: c.Scopes, ExpiresAt: expires}
	issued, err := adminclient.Post[adminapi.IssuedKey](ctx, client, key, "organizations", org.String(), "keys")
	return c.answer(t.out, issued, err, func(w io.Writer) { row(w, issued.Key) })
}

// expiryFlag is when a credential ends: an instant, or how long from now. Empty: never.
type expiryFlag string

// Validate implements kong.Validatable.
func (f expiryFlag) Validate() error {
	_, err := f.at(time.Now())
	return err
}

func (f expiryFlag) at(now time.Time) (*time.Time, error) {
	if f == "" {
		return nil, nil
	}
	if at, err := time.Parse(time.RFC3339, string(f)); err == nil {
		return &at, nil
	}
	wait, err := time.ParseDuration(string(f))
	if err != nil || wait <= 0 {
		return nil, fmt.Errorf("%q is neither a time such as 2027-01-01T00:00:00Z nor a duration such as 720h", f)
	}
	at := now.Add(wait)
	return &at, nil
}

type keyListCommand struct {
	remote
	inOrganization
}

// Run lists the keys.
func (c *keyListCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, org uuid.UUID) error {
	list, err := adminclient.List[query.KeyCredential](ctx, client, "organizations", org.String(), "keys")
	return c.answer(t.out, list, err, func(w io.Writer) {
		row(w, "ID", "NAME", "SCOPES", "SINCE", "EXPIRES", "USED", "STATE")
		for _, k := range list {
			credentialRow(w, k.Credential, strings.Join(k.Scopes, ","))
		}
	})
}

type keyRotateCommand struct {
	changing
	inOrganization
	Key     string        `arg:"" help:"Id of the key: the 8 characters after ck_, as \"carillon key list\" shows them. Never the whole key."`
	Overlap time.Duration `default:"24h" help:"Overlap during which the old key works, up to 720h; 0s: none."`
}

// Run makes the successor.
func (c *keyRotateCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, org uuid.UUID) error {
	overlap := adminclient.Overlap{Seconds: int(c.Overlap.Seconds())}
	issued, err := adminclient.Post[adminapi.IssuedKey](ctx, client, overlap,
		"organizations", org.String(), "keys", c.Key, "rotate")
	return c.answer(t.out, issued, err, func(w io.Writer) { row(w, issued.Key) })
}

// credentialRow writes a line about a credential, with what it is for after its name.
func credentialRow(w io.Writer, c query.Credential, purpose ...any) {
	cells := append([]any{c.ID, printable(c.Name)}, purpose...)
	row(w, append(cells, c.CreatedAt, c.ExpiresAt, c.LastUsedAt,
		validity(w, c.ExpiresAt, c.RevokedAt, time.Now()))...)
}

// validity returns until when something is valid; both times may be nil.
func validity(w io.Writer, expires, revoked *time.Time, now time.Time) string {
	switch {
	case revoked != nil:
		return "revoked " + moment(w, revoked)
	case expires != nil && !now.Before(*expires):
		return "expired"
	}
	return "valid"
}

type keyRevokeCommand struct {
	changing
	inOrganization
	Key string `arg:"" help:"Id of the key: the 8 characters after ck_, as \"carillon key list\" shows them. Never the whole key."`
}

// Run ends the key.
func (c *keyRevokeCommand) Run(ctx context.Context, t terminal, client *adminclient.Client, org uuid.UUID) error {
	return c.ended(t.out, "revoked", c.Key, client.Delete(ctx, "organizations", org.String(), "keys", c.Key))
}
