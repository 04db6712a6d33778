package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/command/sealing"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/projections"
)

// installation has the places of the data that a backup contains. The settings are the server's own.
type installation struct {
	DataDir        string         `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"The server's data directory (${default})."`
	EventStoreURL  config.Address `name:"eventstore-url" env:"CARILLON_EVENTSTORE_URL" placeholder:"URL" help:"The server's EventStoreDB. Empty: the embedded node."`
	DatabaseURL    config.Address `env:"CARILLON_DATABASE_URL" placeholder:"URL" help:"The server's Postgres. Empty: the private one."`
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
	in, err := c.connect(t, cli.Logger(os.Stderr))
	if err != nil {
		return err
	}
	started := time.Now()
	made, err := in.Make(ctx, c.To, started)
	if err != nil {
		return err
	}
	return c.print(t.out, made, func(w io.Writer) {
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
	in, err := c.connect(t, cli.Logger(os.Stderr))
	if err != nil {
		return err
	}
	in.AcceptUnsigned = c.AcceptUnsigned
	started := time.Now()
	read, err := in.Restore(ctx, c.From)
	if err != nil {
		return err
	}
	return c.print(t.out, read, func(w io.Writer) {
		done := "restored and verified"
		if !read.Signed() {
			done = "restored from a backup that is not signed"
		}
		row(w, fmt.Sprintf("%s: %d events in %d streams, %d data keys, in %s", done, read.Events, read.Streams,
			read.Keys, since(started)))
	})
}

// connect says how the installation's parts are reached.
func (c *installation) connect(t terminal, log *slog.Logger) (*backup.Installation, error) {
	if err := config.CheckWriter(c.DataDir); err != nil {
		return nil, err
	}
	cfg := config.Config{
		DataDir:       c.DataDir,
		EventStoreURL: c.EventStoreURL,
		DatabaseURL:   c.DatabaseURL,
		KeyStore:      c.KeyStore,
		MasterKey:     c.MasterKey,
	}
	present := func() (*sealing.Ring, error) {
		now := cfg // as it was given: reading fills it in
		masters, err := now.ReadMasters()
		if err != nil {
			return nil, err
		}
		return sealing.NewRing(masters[0], masters[1:]...)
	}
	ring, err := present()
	if err != nil {
		return nil, err
	}
	s := store{
		url: c.EventStoreURL.Reveal(),
		dir: filepath.Join(c.DataDir, "eventstore"),
		t:   t,
		log: log,
	}
	in := &backup.Installation{
		Ring:          ring,
		Present:       present,
		CopyStore:     s.copy,
		Begun:         s.begun,
		RestoreStore:  s.restore,
		OpenStore:     s.open,
		AcceptLost:    c.AcceptLostKeys,
		OpenDirectory: func(dir string) (*esdb.Store, func(), error) { return openDirectory(dir, log) },
		Progress:      func(what string) (node.Progress, func()) { return bar(t, what) },
		MarkRestored:  func(whole bool) error { return config.MarkRestored(c.DataDir, whole) },
	}
	in.Keys = func(ctx context.Context) (keys map[uuid.UUID][]byte, err error) {
		err = c.withKeys(ctx, &cfg, false, func(stored custody.Stored) (err error) {
			keys, err = stored.Read(ctx)
			return err
		})
		return keys, err
	}
	in.AddKeys = func(ctx context.Context, keys map[uuid.UUID][]byte) error {
		return c.withKeys(ctx, &cfg, true, func(stored custody.Stored) error { return stored.Fill(ctx, keys) })
	}
	return in, nil
}

// withKeys opens the data keys of the installation: all of them are in one place.
func (c *installation) withKeys(
	ctx context.Context, cfg *config.Config, migrate bool, use func(custody.Stored) error,
) error {
	if dir := cfg.KeyDir(); dir != "" {
		return use(custody.InDir(dir))
	}
	if url := cfg.KeyDatabase(); url != "" {
		stored, err := custody.InDatabase(url)
		if err != nil {
			return err
		}
		defer stored.Close()
		return use(stored)
	}
	pool, err := pgxpool.New(ctx, c.DatabaseURL.Reveal())
	if err != nil {
		return fmt.Errorf("CARILLON_DATABASE_URL: %w", err)
	}
	defer pool.Close()
	if migrate {
		if err := projections.Migrate(ctx, pool); err != nil {
			return err
		}
	}
	return use(custody.InTable(pool))
}

// store is the event store of an installation.
type store struct {
	url, dir string
	t        terminal
	log      *slog.Logger
}

// copy copies it into a node's directory.
func (s store) copy(ctx context.Context, dir string) error {
	if s.url != "" {
		target, end, err := openDirectory(dir, s.log)
		if err != nil {
			return err
		}
		defer end()
		source, err := esdb.Open(s.url, s.log)
		if err != nil {
			return fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
		}
		defer func() { _ = source.Close() }()
		return s.carry(ctx, source, target, true)
	}
	n, err := maintenance.Open(ctx, s.dir, s.log)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // the rest of an interrupted backup
		return err
	}
	absolute, err := filepath.Abs(dir) // the running process may be in another directory
	if err != nil {
		return err
	}
	_, end := bar(s.t, "backing up")
	defer end()
	return n.Backup(ctx, absolute)
}

// restore makes it of a node's directory.
func (s store) restore(ctx context.Context, dir string) error {
	if s.url != "" {
		source, end, err := openDirectory(dir, s.log)
		if err != nil {
			return err
		}
		defer end()
		target, done, err := s.open(ctx)
		if err != nil {
			return err
		}
		defer done()
		return s.carry(ctx, source, target, false)
	}
	if begun, err := s.begun(ctx); err != nil || begun {
		return err // a restore was cut off after this; the comparison finds any other cause
	}
	copied, end := bar(s.t, "restoring")
	report, err := maintenance.Restore(ctx, dir, s.dir, s.log, copied, nil)
	end()
	if err == nil && !report.OK() {
		err = fmt.Errorf("the backup is damaged; nothing was restored: %s", reportText(report))
	}
	return err
}

// begun reports whether there is data already. For servers with names, only reading all of it shows that.
func (s store) begun(ctx context.Context) (bool, error) {
	if s.url != "" {
		return true, nil
	}
	_, running, err := maintenance.Protocol(ctx, s.dir)
	if err == nil && running {
		err = fmt.Errorf("a server runs the event store in %s: stop it first", s.dir)
	}
	return err == nil && maintenance.Holds(s.dir), err
}

func (s store) carry(ctx context.Context, source, target *esdb.Store, copyOnly bool) error {
	progress := newCopyProgress(s.t)
	defer progress.end()
	_, err := copying.Copy(ctx, source, target, copying.Options{CopyOnly: copyOnly, Report: progress.report})
	return err
}

func (s store) open(context.Context) (*esdb.Store, func(), error) {
	if s.url == "" {
		return openDirectory(s.dir, s.log)
	}
	opened, err := esdb.Open(s.url, s.log)
	if err != nil {
		return nil, nil, fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
	}
	return opened, func() { _ = opened.Close() }, nil
}
