package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/dev/demo"
	"carillon/eventstore/panics"
)

// demoCommand finds a running server by the same settings as the other commands. If there is none, it starts one with
// none of these settings, so that the demo can't touch real data.
type demoCommand struct {
	config.Client `group:"Server"`

	HTTPAddr    string `name:"http-addr" env:"CARILLON_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the API of a running server (${default})."`
	TLSCert     string `name:"tls-cert" env:"CARILLON_TLS_CERT" placeholder:"FILE" help:"Certificate of the API of a running server, if it serves HTTPS."`
	PostgresBin string `env:"CARILLON_POSTGRES_BIN" placeholder:"DIR" help:"Directory of the Postgres binaries for a temporary server. Empty: the usual places."`
}

// Help implements kong.HelpProvider.
func (demoCommand) Help() string {
	return `Starts a TLS receiver and a page with events on loopback, then: makes a feed, attaches the page, shows the
items that come in, subscribes the receiver, publishes events, and shows the signed webhooks arriving and verifying.

It uses the server that runs on this machine, if it was started with --dev; else it starts one in a temporary
directory, which is removed afterwards.`
}

// Run shows the demo.
func (c *demoCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	admin, err := c.BaseURL()
	if err != nil {
		return err
	}
	if c.running(ctx, admin) {
		options := demo.Options{API: "http://" + c.HTTPAddr, Admin: admin, Stays: true}
		if c.TLSCert != "" {
			options.API, options.APICert = "https://"+c.HTTPAddr, c.TLSCert
		}
		return c.show(ctx, t, options)
	}
	_, _ = fmt.Fprintf(t.out, "\n  No development server runs here: starting one in a temporary directory, for "+
		"the time of the demo …\n")
	dir, err := os.MkdirTemp("", "carillon-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Where root starts it, Postgres runs as another user, who needs to pass through this directory to its own.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // no reading, and everything in it is private by itself
		return err
	}
	c.DataDir, c.AdminToken = dir, ""
	if cli.LogLevel == "info" || cli.LogLevel == "debug" {
		cli.LogLevel = "warn"
	}
	a, err := app.Open(ctx, config.ForDemo(dir, c.PostgresBin), cli.Logger(os.Stderr))
	if err != nil {
		return err
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	var failure error
	serving.Go(func() {
		if failure = panics.Catch("demo", func() error { return a.Run(ctx) }); failure != nil {
			cancel()
		}
	})
	if _, err := a.DevelopmentKey(ctx); err != nil {
		return err
	}
	err = c.show(ctx, t, demo.Options{API: "http://" + a.APIAddr().String(), Admin: "http://" +
		a.AdminAddr().String()})
	cancel()
	serving.Wait()
	return errors.Join(failure, err)
}

// running reports whether a development server of this data directory answers.
func (c *demoCommand) running(ctx context.Context, admin string) bool {
	if _, err := dev.ReadKey(c.DataDir); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for {
		_, err := adminclient.New(admin, "").Ready(ctx)
		var unready *apiclient.Error
		if !errors.As(err, &unready) || unready.Status != http.StatusServiceUnavailable {
			return err == nil
		}
		select { // it is about to be ready
		case <-ctx.Done():
			return false
		case <-time.After(readyPoll):
		}
	}
}

const (
	startsWithin = 15 * time.Second // that a server which answers has to become ready
	readyPoll    = 100 * time.Millisecond
)

// show fills in the values of the data directory.
func (c *demoCommand) show(ctx context.Context, t terminal, options demo.Options) (err error) {
	if options.Key, err = dev.ReadKey(c.DataDir); err != nil {
		return err
	}
	if options.AdminToken, err = c.Token(); err != nil {
		return err
	}
	if options.Authority, err = dev.EnsureAuthority(c.DataDir); err != nil {
		return err
	}
	options.Out, options.Zone, options.Organization = t.out, t.zone(), app.DevelopmentOrganization.String()
	return demo.Run(ctx, options)
}
