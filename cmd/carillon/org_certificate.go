package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/command/mtls"
	"carillon/query"
)

type orgCertificateCommand struct {
	Set    orgCertificateSetCommand    `cmd:"" help:"Set or replace the client certificate of an organization."`
	Show   orgCertificateShowCommand   `cmd:"" help:"Show the certificate and its expiry."`
	Remove orgCertificateRemoveCommand `cmd:"" help:"Remove the certificate and destroy its private key."`
}

type orgCertificateSetCommand struct {
	changing
	ofOrganization
	Cert string `required:"" placeholder:"FILE" help:"PEM file: the client certificate, followed by its chain."`
	Key  string `required:"" placeholder:"FILE" help:"PEM file: its private key, not encrypted."`
}

// Help implements kong.HelpProvider.
func (orgCertificateSetCommand) Help() string {
	return `Receivers that ask for a client certificate are shown this one, by deliveries, tests and probes of
this organization and of no other. New connections use it; connections with the previous one are closed, and its
private key is shredded.

  carillon org certificate set 0d00 --cert client.pem --key client-key.pem

The private key is sealed and never shown. Store the file safely, or remove it.`
}

// Run sets the certificate.
func (c *orgCertificateSetCommand) Run(ctx context.Context, t terminal) error {
	certificate, err := readPEM("--cert", c.Cert, mtls.MaxChain)
	if err != nil {
		return err
	}
	key, err := readPEM("--key", c.Key, mtls.MaxKey)
	if err != nil {
		return err
	}
	client, id, err := c.of(ctx, c.Organization)
	if err != nil {
		return err
	}
	shown, err := client.SetClientCertificate(ctx, id, certificate, key)
	return c.answer(t.out, shown, err, func(w io.Writer) { certificateTable(w, shown) })
}

// readPEM reads a file that is no larger than the server takes.
func readPEM(flag, path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", flag, err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", flag, err)
	case int64(len(text)) > limit:
		return "", fmt.Errorf("%s: %s has more than %d bytes: it can't be the right file", flag, path, limit)
	}
	if text, err = mtls.PEM(text); err != nil { // DER would not survive the JSON of the request
		return "", fmt.Errorf("%s: %s %w", flag, path, err)
	}
	return string(text), nil
}

type orgCertificateShowCommand struct {
	remote
	ofOrganization
}

// Run shows the certificate.
func (c *orgCertificateShowCommand) Run(
	ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID,
) error {
	shown, err := adminclient.Get[query.ClientCertificate](ctx, client, "organizations", id.String(), "client-certificate")
	return c.answer(t.out, shown, err, func(w io.Writer) { certificateTable(w, shown) })
}

type orgCertificateRemoveCommand struct {
	changing
	ofOrganization
}

// Run removes the certificate.
func (c *orgCertificateRemoveCommand) Run(
	ctx context.Context, t terminal, client *adminclient.Client, id uuid.UUID,
) error {
	err := client.Delete(ctx, "organizations", id.String(), "client-certificate")
	return c.answer(t.out, map[string]any{"id": id, "clientCertificate": "removed"}, err,
		func(w io.Writer) { row(w, id, "client certificate removed") })
}

func certificateTable(w io.Writer, shown query.ClientCertificate) {
	expires := moment(w, &shown.NotAfter) + ", in " + counted(shown.DaysLeft, "day")
	if shown.DaysLeft < 0 {
		expires = moment(w, &shown.NotAfter) + ": it has expired"
	}
	row(w, "subject", shown.Subject)
	row(w, "issuer", shown.Issuer)
	row(w, "serial number", shown.Serial)
	row(w, "SHA-256", shown.Fingerprint)
	row(w, "valid from", shown.NotBefore)
	row(w, "expires", expires)
	row(w, "set", shown.SetAt)
	if shown.SetBy != "" {
		row(w, "by", shown.SetBy)
	}
}
