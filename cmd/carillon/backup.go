package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/eventstore/copying"
	"carillon/eventstore/node"
)

// installation has the places of the data that a backup contains. The settings are the server's own.
type installation struct {
	DataDir       string         `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"The server's data directory (${default})."`
	EventStoreURL config.Address `name:"eventstore-url" env:"CARILLON_EVENTSTORE_URL" placeholder:"URL" help:"The server's EventStoreDB. Empty: the embedded node."`
	DatabaseURL   config.Address `env:"CARILLON_DATABASE_URL" placeholder:"URL" help:"The server's Postgres. Empty: the private one."`

	EventStorePassword config.Secret `name:"eventstore-password" env:"CARILLON_EVENTSTORE_PASSWORD" placeholder:"PASSWORD" help:"Password of the user that --eventstore-url names."`
	DatabasePassword   config.Secret `env:"CARILLON_DATABASE_PASSWORD" placeholder:"PASSWORD" help:"Password of the user that --database-url names."`

	KeyStore       config.Address `env:"CARILLON_KEY_STORE" placeholder:"DIR|URL" help:"The server's key store, if one is configured."`
	MasterKey      config.Secret  `env:"CARILLON_MASTER_KEY" placeholder:"BASE64" help:"The master key, if it is not in the data directory."`
	AcceptLostKeys bool           `env:"CARILLON_ACCEPT_LOST_KEYS" help:"Continue although live destinations have lost their data keys."`
	printing
}

type backupCommand struct {
	installation

	To string `arg:"" type:"path" placeholder:"DIR" help:"The directory to create, or one with an interrupted backup."`
}

// Help implements kong.HelpProvider.
func (backupCommand) Help() string {
	return `Copies the event store and the data keys, while the server runs or not, and checks the copy: every
live destination's secret must open. The master key is not included: keep it elsewhere. With an EventStoreDB
cluster the log is copied into a node's directory. An interrupted backup continues.`
}

// Run makes the backup.
func (c *backupCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	started := time.Now()
	made, err := c.open(t, cli).Make(ctx, c.To, started)
	return c.answer(t.out, made, err, func(w io.Writer) {
		row(w, fmt.Sprintf("backed up to %s: %d events in %d streams, %d data keys, in %s", c.To, made.Events,
			made.Streams, made.Keys, since(started)))
	})
}

type restoreCommand struct {
	installation

	From           string `arg:"" type:"existingdir" placeholder:"DIR" help:"The backup."`
	AcceptUnsigned bool   `help:"Restore an unsigned backup, as earlier versions made them. An attacker with write access to it may have added an operator."`
}

// Help implements kong.HelpProvider.
func (restoreCommand) Help() string {
	return `Restores event store and key store, which must be empty or contain a part of the backup, and
verifies both: every stream by its count and SHA-256, every live destination by its secret. The server must not
be running, and the master key of the backup must be present: a backup with another signature is refused. Read
models are built from the events when the server starts. That start sends and visits nothing without
--after-restore.`
}

// Run restores and verifies.
func (c *restoreCommand) Run(ctx context.Context, t terminal, cli *commandLine) error {
	in := c.open(t, cli)
	in.AcceptUnsigned = c.AcceptUnsigned
	started := time.Now()
	read, err := in.Restore(ctx, c.From)
	return c.answer(t.out, read, err, func(w io.Writer) {
		done := "restored and verified"
		if !read.Signed() {
			done = "restored from a backup that is not signed"
		}
		row(w, fmt.Sprintf("%s: %d events in %d streams, %d data keys, in %s", done, read.Events, read.Streams,
			read.Keys, since(started)))
	})
}

// open returns the installation.
func (c *installation) open(t terminal, cli *commandLine) *backup.Installation {
	return &backup.Installation{
		Config: config.Config{
			DataDir:       c.DataDir,
			EventStoreURL: c.EventStoreURL.WithPassword(c.EventStorePassword),
			DatabaseURL:   c.DatabaseURL.WithPassword(c.DatabasePassword),
			KeyStore:      c.KeyStore,
			MasterKey:     c.MasterKey,
		},
		AcceptLost: c.AcceptLostKeys,
		Log:        cli.Logger(os.Stderr),
		Progress:   func(what string) (node.Progress, func()) { return bar(t, what) },
		Copying: func() (func(copying.Progress), func()) {
			progress := newCopyProgress(t)
			return progress.report, progress.end
		},
	}
}
