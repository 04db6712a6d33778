package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/demo"
	"carillon/cmd/internal/development"
)

// demoCommand has the server's settings, so that it finds a running one and can start its own.
type demoCommand struct{ config.Config }

// Help implements kong.HelpProvider.
func (demoCommand) Help() string {
	return `Starts a TLS receiver and a page with events on loopback, then: makes a feed, attaches the page, shows the
items that come in, subscribes the receiver, publishes events, and shows the signed webhooks arriving and verifying.

It uses the server that runs on this machine, if it was started with --dev; else it starts one in a temporary
directory, which is gone afterwards.`
}

// Run shows the demo.
func (c *demoCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	if c.running(ctx) {
		return c.show(ctx, t, "http://"+c.HTTPAddr, "http://"+c.AdminAddr)
	}
	dir, err := os.MkdirTemp("", "carillon-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Started by root, Postgres runs as another user, who must get through to its own directory below.
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // no reading, and everything in it is private by itself
		return err
	}
	c.DataDir, c.HTTPAddr, c.AdminAddr, c.Dev = dir, "127.0.0.1:0", "127.0.0.1:0", true
	cli.LogLevel = max(cli.LogLevel, slog.LevelWarn)
	a, err := app.Open(ctx, c.Config, cli.Logger(os.Stderr))
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
		if failure = a.Run(ctx); failure != nil {
			cancel()
		}
	})
	if _, err := a.DevelopmentKey(ctx); err != nil {
		return err
	}
	err = c.show(ctx, t, "http://"+a.APIAddr().String(), "http://"+a.AdminAddr().String())
	cancel()
	serving.Wait()
	return errors.Join(failure, err)
}

// running reports whether a development server of this data directory answers.
func (c *demoCommand) running(ctx context.Context) bool {
	if _, err := development.ReadKey(c.DataDir); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err := adminclient.New("http://"+c.AdminAddr, "").Ready(ctx)
	return err == nil
}

func (c *demoCommand) show(ctx context.Context, t terminal, api, admin string) error {
	key, err := development.ReadKey(c.DataDir)
	if err != nil {
		return err
	}
	client := config.Client{DataDir: c.DataDir, AdminToken: c.AdminToken}
	token, err := client.Token()
	if err != nil {
		return err
	}
	authority, err := development.EnsureAuthority(c.DataDir)
	if err != nil {
		return err
	}
	return demo.Run(ctx, demo.Options{API: api, Admin: admin, Key: key, AdminToken: token, Authority: authority, Out: t.out})
}
