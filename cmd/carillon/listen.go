package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/listen"
	"carillon/command/webhook"
)

type listenCommand struct {
	config.API `group:"Server"`

	AdminAddr string `env:"CARILLON_ADMIN_ADDR" default:"127.0.0.1:8081" placeholder:"HOST:PORT" group:"Server" help:"Address of the admin API, for the example of carillon trigger (${default})."`

	Types   []string      `default:"*" help:"Event types, such as news.item.added, news.* or * (all)."`
	Feeds   []anID        `name:"feed" placeholder:"ID" help:"Only events of this feed. Can be repeated."`
	Forward string        `placeholder:"URL" help:"Pass each webhook on to this URL, and its answer back."`
	Fail    int           `placeholder:"N" help:"Refuse the first N attempts of each webhook."`
	Status  int           `placeholder:"STATUS" help:"Answer with this status; with --fail, only refusals (500)."`
	Delay   time.Duration `placeholder:"TIME" help:"Wait before answering."`
	Retry   time.Duration `name:"retry-after" placeholder:"TIME" help:"Have what was refused sent again after this time, in place of the server's schedule."`
	Secret  config.Secret `env:"WEBHOOK_SECRET" help:"The secret that signs. Empty: that of the data directory."`
	JSON    bool          `help:"Print each webhook as a line of JSON."`

	Insecure bool   `help:"Accept any certificate of the program that webhooks are passed on to."`
	CA       string `name:"ca" placeholder:"FILE" help:"PEM file of authorities that the program's certificate may be signed by."`

	Stream      bool `help:"Take webhooks from a stream of the API, as always if the server is on another machine."`
	PrintSecret bool `help:"Print the secret, and exit."`
}

// Help implements kong.HelpProvider.
func (listenCommand) Help() string {
	return `Makes a destination and a subscription, prints each webhook as it comes, and removes both at the end. The next
listener removes those that a killed one has left.

  carillon listen --types 'news.*'
  carillon listen --forward localhost:3000/hooks
  carillon listen --fail 3 --status 503 --retry-after 1s

From a server elsewhere, with a key that has the scope write, they come through a stream, so that no port is open here.
The secret follows from the key then, unless it is named (--secret, or WEBHOOK_SECRET):

  carillon listen --http-addr https://carillon.example --key ck_…

Signature, headers and body arrive at the program that they are forwarded to as the server sent them.`
}

const (
	maxDelay = 10 * time.Minute
	minRetry = 100 * time.Millisecond
)

// Validate implements kong.Validatable.
func (c *listenCommand) Validate() error {
	if c.Forward != "" && !strings.Contains(c.Forward, "://") {
		c.Forward = "http://" + c.Forward
	}
	forward, err := url.Parse(c.Forward)
	switch {
	case c.Forward == "":
	case err != nil, forward.Scheme != "http" && forward.Scheme != "https", forward.Host == "":
		return fmt.Errorf("--forward must be a URL such as http://localhost:3000/hooks; it is %q", c.Forward)
	}
	switch {
	case c.Fail < 0:
		return fmt.Errorf("--fail must be 0 or more; it is %d", c.Fail)
	case c.Status != 0 && (c.Status < http.StatusOK || c.Status > 599):
		return fmt.Errorf("--status must be 200 to 599; it is %d", c.Status)
	case c.Delay < 0 || c.Delay > maxDelay:
		return fmt.Errorf("--delay must be 0s to %s; it is %s", maxDelay, c.Delay)
	case c.Retry != 0 && (c.Retry < minRetry || c.Retry > maxDelay):
		return fmt.Errorf("--retry-after must be %s to %s; it is %s", minRetry, maxDelay, c.Retry)
	case c.Secret != "":
		if _, err := webhook.ParseSecret(c.Secret.Reveal()); err != nil {
			return errors.New("--secret must be whsec_ and base64 of 24 to 64 bytes")
		}
	}
	return nil
}

// Run listens until Ctrl-C.
func (c *listenCommand) Run(ctx context.Context, t terminal) error {
	client, err := apiclient.Open(&c.API)
	if err != nil {
		return err
	}
	secret, err := c.secret(client)
	if err != nil || c.PrintSecret {
		if err == nil {
			_, err = fmt.Fprintln(t.out, secret)
		}
		return err
	}
	var authority *dev.Authority
	if !c.streams() {
		if authority, err = dev.OpenAuthority(c.DataDir); err != nil {
			return err
		}
	}
	trust, err := c.trust(authority)
	if err != nil {
		return err
	}
	// A write to a closed pipe fails then, and does not end the process before the destination is removed.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	feeds := make([]string, len(c.Feeds))
	for i, feed := range c.Feeds {
		feeds[i] = feed.UUID().String()
	}
	return listen.Run(ctx, listen.Options{
		API:       client,
		Authority: authority,
		Secret:    secret,
		Types:     c.Types,
		Feeds:     feeds,
		Forward:   c.Forward,
		Trust:     trust,
		Failures:  c.Fail,
		Status:    c.Status,
		Delay:     c.Delay,
		Retry:     c.Retry,
		JSON:      c.JSON,
		Example:   c.example(),
		Out:       t.out,
		Zone:      t.zone(),
		Notes:     &harmless{to: t.err},
	})
}

// streams reports whether webhooks come from a stream: this program needs no address that the server can reach then.
func (c *listenCommand) streams() bool { return c.Stream || !c.OnThisMachine() }

// example returns the command line that publishes to the server, or "" if it may not be a development server: only the
// organization of one gets examples.
func (c *listenCommand) example() string {
	if key, err := dev.ReadKey(c.DataDir); err != nil || c.APIKey != "" && c.APIKey.Reveal() != key || !c.OnThisMachine() {
		return ""
	}
	command := "carillon trigger news.item.added"
	if c.DataDir != "./data" {
		command += " --data-dir " + app.Quoted(c.DataDir)
	}
	switch {
	case c.AdminAddr != "127.0.0.1:8081":
		command += " --admin-addr " + app.Quoted(c.AdminAddr)
	case c.HTTPAddr != "127.0.0.1:8080": // the admin API is at another address most likely
		command += " --admin-addr HOST:PORT"
	}
	return command
}

// secret returns the one that is given, that of the development server's data directory, or one that follows from the
// key, so that a receiver can be started once and stay.
func (c *listenCommand) secret(client *apiclient.Client) (string, error) {
	if given := c.Secret.Reveal(); given != "" {
		return given, nil
	}
	_, undeveloped := dev.OpenAuthority(c.DataDir)
	switch {
	case c.OnThisMachine() && undeveloped == nil:
		return dev.ListenSecret(c.DataDir)
	case c.streams():
		made, err := webhook.Mint(bytes.NewReader(client.Derive("webhooks of carillon listen")))
		return made.Reveal(), err
	}
	return "", undeveloped
}

// trust returns which certificates the program may show that webhooks are passed on to.
func (c *listenCommand) trust(authority *dev.Authority) (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.Insecure} //nolint:gosec // as asked
	if authority != nil {
		trust.RootCAs = authority.Trust()
	}
	roots, err := (&config.Config{EgressCA: c.CA}).EgressRoots(trust.RootCAs)
	if err != nil {
		return nil, fmt.Errorf("--ca must name a file with certificates in PEM: %s", c.CA)
	}
	trust.RootCAs = roots
	return trust, nil
}
