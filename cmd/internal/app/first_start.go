package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/dev"
	"carillon/command"
	"carillon/projections/organizations"
)

// DevelopmentOrganization is the same on every machine, so that examples can name it.
var DevelopmentOrganization = uuid.MustParse("0d000000-0000-4000-8000-000000000001")

// DevelopmentKey returns the API key of the development organization; the first call makes both.
func (a *App) DevelopmentKey(ctx context.Context) (key string, err error) {
	defer func() {
		if err == nil {
			a.servers.keyless.Store(false)
		}
	}()
	key, err = dev.ReadKey(a.cfg.DataDir)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	by := command.Caller{Actor: "operator", RequestID: uuid.New()}
	if _, err := a.Commands.RegisterOrganization(ctx, by, command.RegisterOrganization{
		ID:   DevelopmentOrganization,
		Name: "Development",
	}); err != nil {
		return "", fmt.Errorf("development organization: %w", err)
	}
	issued, err := a.Commands.IssueKey(ctx, by, command.IssueKey{
		Organization: DevelopmentOrganization,
		Name:         "development",
	})
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	if err := a.exampleSource(ctx, by); err != nil {
		return "", err
	}
	key = issued.Value.Reveal()
	if err := dev.KeepKey(a.cfg.DataDir, key); err != nil {
		return "", err
	}
	a.Progress.Await(ctx, issued.Position, organizations.ReadModel.Name)
	return key, nil
}

// exampleSource makes the source that the examples of the API's document attach.
func (a *App) exampleSource(ctx context.Context, by command.Caller) error {
	made, err := a.Commands.RegisterSource(ctx, by, command.RegisterSource{Type: source.TypeSite, URL: dev.ExampleSource})
	if err == nil {
		const reason = "an example for the API's documentation"
		_, err = a.Commands.PauseSource(ctx, by, command.PauseSource{Source: made.ID, Reason: reason})
	}
	if err != nil {
		return fmt.Errorf("example source: %w", err)
	}
	return nil
}

// keyPause is the time between two tries to make the development key.
const keyPause = 500 * time.Millisecond

// Welcome prints all addresses for a developer, with commands to paste. It waits until the key works.
func (a *App) Welcome(ctx context.Context, out io.Writer) error {
	if !a.cfg.Dev || !a.cfg.Is(config.RoleAPI) {
		return nil
	}
	key, err := a.DevelopmentKey(ctx)
	for err != nil { // the event store may have no leader yet
		a.log.Warn("the development key can't be made yet, trying again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(keyPause):
		}
		key, err = a.DevelopmentKey(ctx)
	}
	api, admin := a.servers.baseURL(), "http://"+hostPort(a.AdminAddr())
	link, _, err := a.servers.consoleLink(ctx, adminapi.ConsoleVisitor{
		Organization: DevelopmentOrganization,
		Person:       "developer",
	})
	if err != nil { // the key works all the same
		a.log.Warn("no login link for the console could be made", "error", err)
		link = api + console.Base
	}
	_, err = fmt.Fprintf(out, `
  Carillon is ready.

    API      %[1]s
    Docs     %[1]s/docs
    Console  %[7]s   (this link works once, within 15 minutes)
    Admin    %[2]s   (/healthz, /readyz, /metrics; token in %[4]s/admin.token)
    API key  %[3]s   (organization %[5]s)

  Try:

    curl -s %[1]s/events/types -H 'Authorization: Bearer %[3]s'

    curl -s %[1]s/feeds/events -H 'Authorization: Bearer %[3]s' -H 'Content-Type: application/json' \
      -d '{"name":"City concerts","description":"Concerts in town"}'

    %[8]s

    %[6]s

`, api, admin, key, a.cfg.DataDir, DevelopmentOrganization, a.demoCommand(), link, a.listenCommand())
	return err
}

// demoCommand is the command line that shows the demo on this server.
func (a *App) demoCommand() string {
	if a.cfg.DataDir == "./data" && a.cfg.HTTPAddr == "127.0.0.1:8080" && a.cfg.AdminAddr == "127.0.0.1:8081" &&
		a.cfg.TLSCert == "" {
		return "make demo"
	}
	command := fmt.Sprintf("%s demo --data-dir %s --http-addr %s --admin-addr %s",
		Quoted(os.Args[0]), Quoted(a.cfg.DataDir), hostPort(a.APIAddr()), hostPort(a.AdminAddr()))
	if a.cfg.TLSCert != "" {
		command += " --tls-cert " + Quoted(a.cfg.TLSCert)
	}
	return command
}

// listenCommand returns the command line that receives this server's webhooks.
func (a *App) listenCommand() string {
	command := Quoted(os.Args[0]) + " listen"
	if a.cfg.DataDir != "./data" {
		command += " --data-dir " + Quoted(a.cfg.DataDir)
	}
	if a.cfg.HTTPAddr != "127.0.0.1:8080" {
		command += " --http-addr " + hostPort(a.APIAddr())
	}
	if a.cfg.AdminAddr != "127.0.0.1:8081" {
		command += " --admin-addr " + hostPort(a.AdminAddr())
	}
	if a.cfg.TLSCert != "" {
		command += " --tls-cert " + Quoted(a.cfg.TLSCert)
	}
	return command
}

// Quoted returns a word as a shell reads it, in quotes if it needs them.
func Quoted(word string) string {
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/.:_-") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// hostPort is an address to connect to: a server that listens everywhere is also here.
func hostPort(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
