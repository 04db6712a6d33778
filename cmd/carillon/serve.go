package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/panics"
)

type serveCommand struct {
	config.Config

	CheckConfig bool `help:"Check the settings and the files that they name, and exit: 0 if a server would take them. Nothing is started or written."`
}

// Help implements kong.HelpProvider.
func (serveCommand) Help() string {
	return `Runs everything in one process: API, collectors, projections, deliveries. With no further settings it
starts its own event store and its own Postgres in the data directory, and keeps its keys there; started again,
it goes on with the same data. Ctrl-C stops all of it.

A variable that holds a secret or an address with a password may be in a file: CARILLON_ADMIN_TOKEN_FILE, for instance,
names the one with the admin token.

  carillon serve --check-config
  carillon serve --dev
  carillon serve --http-addr :443 --tls-cert cert.pem --tls-key key.pem
  carillon serve --roles deliver --eventstore-url esdb://… --database-url postgres://…`
}

// Run runs the server until the context ends.
func (c *serveCommand) Run(ctx context.Context, t terminal, cli *commandLine, model *kong.Kong) error {
	if err := config.CheckReplaced(os.Environ()); err != nil {
		return err
	}
	if c.CheckConfig {
		c.checked(t, model)
		return nil
	}
	app.LimitMemory()
	log := cli.ProcessLogger(os.Stderr)
	panics.LogTo(log)
	for _, name := range unknownVariables(model.Model, os.Environ()) {
		log.Warn("a variable that Carillon does not know is set: is it mistyped? See \"carillon serve --help\"",
			"variable", name)
	}
	if warning := c.Unreachable(); warning != "" {
		log.Warn("API not reachable from other machines", "why", warning)
	}
	a, err := app.Open(ctx, c.Config, log)
	if err != nil {
		return err
	}
	defer a.Close()
	ctx, cancel := context.WithCancel(ctx)
	var welcoming sync.WaitGroup
	defer welcoming.Wait()
	defer cancel()
	welcoming.Go(panics.Func("welcome", func() { // it waits until the server works
		if err := a.Welcome(ctx, t.out); err != nil && ctx.Err() == nil {
			log.Error("could not prepare the development organization", "error", err)
		}
	}))
	return a.Run(ctx)
}

// checked reports that the settings are right: the command line was refused otherwise.
func (c *serveCommand) checked(t terminal, model *kong.Kong) {
	for _, name := range unknownVariables(model.Model, os.Environ()) {
		row(t.err, "unknown variable: "+name)
	}
	if warning := c.Unreachable(); warning != "" {
		row(t.err, "API not reachable from other machines: "+warning)
	}
	row(t.out, "the settings are right")
}

type devCommand struct {
	Certificate devCertificateCommand `cmd:"" help:"Make a TLS certificate that the development server trusts."`
}

type devCertificateCommand struct {
	DataDir string `env:"CARILLON_DATA_DIR" default:"./data" help:"Data directory of a development server (${default})."`
	Cert    string `default:"cert.pem" help:"File of the certificate (${default})."`
	Key     string `default:"key.pem" help:"File of its private key (${default})."`
	printing
	Names []string `arg:"" name:"name" help:"localhost, something.localhost, or a loopback address."`
}

// Help implements kong.HelpProvider.
func (devCertificateCommand) Help() string {
	return `The certificate is for receivers on this machine, for 90 days. A server that was started with --dev on the same
data directory trusts it, and no other program does. To look at a receiver with curl, name the authority:

  carillon dev certificate localhost 127.0.0.1
  curl --cacert data/development/ca.pem https://localhost:8443/`
}

// Run makes the certificate.
func (c *devCertificateCommand) Run(t terminal) error {
	authority, err := dev.OpenAuthority(c.DataDir)
	if err != nil {
		return err
	}
	if err := authority.WriteCertificate(c.Cert, c.Key, c.Names); err != nil {
		return err
	}
	made := map[string]string{"certificate": absolute(c.Cert), "key": absolute(c.Key)}
	return c.print(t.out, made, func(w io.Writer) {
		row(w, "Certificate: "+made["certificate"])
		row(w, "Private key: "+made["key"])
		row(w, fmt.Sprintf("The development server on %s trusts it.", c.DataDir))
	})
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
