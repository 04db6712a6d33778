package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/projections/analytics"
	"carillon/projections/postgres"
	"carillon/projections/sessionlock"
)

const (
	maxSocketPath  = 100 // bytes; the kernel takes 107
	keyPoolSize    = 2   // one question about keys is in progress at a time; the other is for a connection that hangs
	connectTimeout = 5 * time.Second
	stopTimeout    = 10 * time.Second
	restartPause   = time.Second

	// Sessions that were idle for that long are closed at the next look. The pool uses each once after a look, so that the
	// time must be shorter than the interval of looks.
	maxIdleSession = 20 * time.Second
	sessionLook    = 30 * time.Second
)

// eventStore is an eventstore.Store with an identity.
type eventStore interface {
	eventstore.Store
	Identity(ctx context.Context) (string, error)
}

// infrastructure holds the event store and Postgres, embedded or elsewhere.
type infrastructure struct {
	store eventStore
	// tombstone ends a stream of the store permanently.
	tombstone func(ctx context.Context, stream string) error
	// scavenge gives the space of deleted streams back; nil if the store is elsewhere.
	scavenge func(ctx context.Context) error
	server   *esdb.Store // the store, if it is a server elsewhere; nil if it is embedded
	pool     *pgxpool.Pool
	locks    *sessionlock.Locks
	keys     *pgxpool.Pool // of authentication alone, so that callers without a key take nothing from those with one
	sessions *pgxpool.Pool // of the console, for the same reason
	full     func() bool   // whether the embedded node has no room for appends; nil if the store is elsewhere
	failed   chan error    // an embedded part failed permanently
	closers  []func()      // in order of opening
}

func openInfrastructure(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *infrastructure, err error) {
	in := &infrastructure{failed: make(chan error, 1)}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	var storeErr error
	elsewhere := cfg.EventStoreURL != ""
	if elsewhere { // does not connect yet, so that a mistyped address shows before anything slow
		if err := in.openEventStore(cfg, log); err != nil {
			return nil, err
		}
	}
	var opening sync.WaitGroup
	var databaseURL string
	var databaseErr error
	var stopDatabase func()
	opening.Go(func() { databaseURL, stopDatabase, databaseErr = openDatabase(ctx, cfg, log) }) // the slower of the two
	if !elsewhere {
		storeErr = in.openEventStore(cfg, log)
	}
	opening.Wait()
	if stopDatabase != nil {
		in.closers = append(in.closers, stopDatabase)
	}
	if err := errors.Join(storeErr, databaseErr); err != nil {
		return nil, err
	}
	err = in.openPools(cfg, databaseURL, log)
	return in, err
}

// openPools prepares all sessions of Postgres that this process has. None is opened yet. With that of the locks they
// are one more than the setting says; those idle for 20 s are closed.
func (in *infrastructure) openPools(cfg *config.Config, databaseURL string, log *slog.Logger) error {
	poolConfig, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("CARILLON_DATABASE_URL can't be parsed: it must look like postgres://user:password@host:5432/" +
			"carillon")
	}
	poolConfig.ConnConfig.ConnectTimeout = connectTimeout
	direct := poolConfig.ConnConfig
	if url := cfg.DatabaseDirectURL.Reveal(); url != "" {
		if direct, err = pgx.ParseConfig(url); err != nil {
			return errors.New("CARILLON_DATABASE_DIRECT_URL can't be parsed: it must look like " +
				"postgres://user:password@host:5432/carillon")
		}
		direct.ConnectTimeout = connectTimeout
		if !strings.Contains(databaseURL, "default_query_exec_mode") { // a pooler may know no prepared statements
			poolConfig.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
	}
	in.locks = sessionlock.New(direct, log)
	plain := &plainText{log: log}
	plain.stores(cfg)
	poolConfig.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		plain.connected(conn)
		return compressQuickly(ctx, conn)
	}
	poolConfig.MaxConnIdleTime, poolConfig.HealthCheckPeriod = maxIdleSession, sessionLook
	for _, pool := range []struct {
		opened **pgxpool.Pool
		size   int
	}{
		{&in.pool, cfg.Connections() - 2*keyPoolSize},
		{&in.keys, keyPoolSize},
		{&in.sessions, keyPoolSize},
	} {
		sized := poolConfig.Copy()
		sized.MaxConns = int32(pool.size) //nolint:gosec // bounded by Validate
		if *pool.opened, err = pgxpool.NewWithConfig(context.Background(), sized); err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		in.closers = append(in.closers, (*pool.opened).Close)
	}
	in.closers = append(in.closers, in.locks.Close)
	return nil
}

// compressQuickly lets a session compress long values by LZ4, which takes a fifth of the time that Postgres' own
// compression takes: they are written once and seldom read. A Postgres that was built without LZ4, or with a configured
// method, is not changed.
func compressQuickly(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SELECT set_config(name, 'lz4', false) FROM pg_settings
		WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals) AND source = 'default'`)
	return err
}

func (in *infrastructure) openEventStore(cfg *config.Config, log *slog.Logger) (err error) {
	if url := cfg.EventStoreURL.Reveal(); url != "" {
		if in.server, err = esdb.Open(url, log); err != nil {
			return fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
		}
		in.store, in.tombstone = in.server, in.server.Tombstone
		in.closers = append(in.closers, func() { _ = in.server.Close() })
		return nil
	}
	dir := filepath.Join(cfg.DataDir, "eventstore")
	embedded, err := node.Open(node.Config{Dir: dir, Logger: log})
	if err != nil {
		return fmt.Errorf("embedded event store: %w", err)
	}
	in.full = embedded.Full
	in.closers = append(in.closers, func() {
		if err := embedded.Close(); err != nil {
			log.Error("embedded event store did not close cleanly", "error", err)
		}
	})
	socket, remove, err := socketPath(cfg.DataDir)
	if err != nil {
		return err
	}
	in.closers = append(in.closers, remove)
	tasks, err := maintenance.Serve(embedded, dir, socket, log)
	if err != nil {
		return err
	}
	in.closers = append(in.closers, tasks.Close)
	go func() {
		if err := embedded.ListenUnix(socket); err != nil {
			in.fail(fmt.Errorf("embedded event store: %w", err))
		}
	}()
	closed := make(chan struct{})
	in.closers = append(in.closers, func() { close(closed) })
	go func() {
		select {
		case <-embedded.Failed():
			in.fail(fmt.Errorf("embedded event store: %w", embedded.Err()))
		case <-closed:
		}
	}()
	in.store, in.tombstone = embedded.Store(), embedded.Store().Tombstone
	in.scavenge = func(ctx context.Context) error {
		removed, err := embedded.Scavenge(ctx, nil)
		if removed.Events > 0 {
			log.Info("event store scavenged", "events", removed.Events, "bytes", removed.Bytes)
		}
		return err
	}
	in.closers = append(in.closers, embedded.Store().Close)
	return nil
}

func (in *infrastructure) fail(err error) {
	select {
	case in.failed <- err:
	default:
	}
}

// socketPath is in the data directory, or in a separate one if that path is too long for a socket.
func socketPath(dataDir string) (path string, remove func(), err error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", nil, fmt.Errorf("data directory: %w", err)
	}
	path = filepath.Join(dir, "eventstore.sock")
	if len(path) <= maxSocketPath {
		return path, func() { _ = os.Remove(path) }, nil
	}
	short, err := os.MkdirTemp("", "carillon-")
	if err != nil {
		return "", nil, fmt.Errorf("socket of the embedded event store: %w", err)
	}
	return filepath.Join(short, "eventstore.sock"), func() { _ = os.RemoveAll(short) }, nil
}

// openDatabase starts the private Postgres, if no other is configured, and starts it again whenever it dies.
func openDatabase(ctx context.Context, cfg *config.Config, log *slog.Logger) (url string, stop func(), err error) {
	if url := cfg.DatabaseURL.Reveal(); url != "" {
		return url, nil, nil
	}
	settings := postgres.Config{
		Dir:         filepath.Join(cfg.DataDir, "postgres"),
		BinDir:      cfg.PostgresBin,
		Logger:      log,
		Guests:      analytics.Role,
		Loopback:    cfg.AnalyticsAddr,
		Replaceable: func() error { return keysElsewhere(cfg) },
	}
	server, err := postgres.Start(ctx, settings)
	if err != nil {
		return "", nil, whatToSet(err)
	}
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		keepRunning(server, settings, stopping, log)
	}()
	return server.URL(), func() { close(stopping); <-stopped }, nil
}

// whatToSet names the settings that are missing if no Postgres can be run, as in the image.
func whatToSet(err error) error {
	search, searched := errors.AsType[*postgres.SearchError](err)
	if !errors.Is(err, postgres.ErrNoAccount) && (!searched || search.Want != 0) {
		return err
	}
	return fmt.Errorf("set CARILLON_DATABASE_URL to a Postgres 15 or newer, and in a container CARILLON_EVENTSTORE_URL "+
		"to an EventStoreDB as well: "+
		"a private Postgres can't be run here: %w", err)
}

// keysElsewhere reports whether Postgres may be replaced: the data keys must be in a directory, or in another Postgres.
func keysElsewhere(cfg *config.Config) error {
	if cfg.KeyDatabase() != "" {
		return nil
	}
	if !custody.Holds(cfg.KeyDir()) {
		return errors.New("it holds the only copy of the data keys, without which no stored secret can be read: start this " +
			"version once with it, and they are in the key store too")
	}
	return nil
}

func keepRunning(server *postgres.Server, settings postgres.Config, stopping <-chan struct{}, log *slog.Logger) {
	for {
		select {
		case <-stopping:
			ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
			defer cancel()
			if err := server.Stop(ctx); err != nil {
				log.Error("private Postgres did not stop cleanly", "error", err)
			}
			return
		case <-server.Done():
			log.Error("private Postgres died, starting it again", "error", server.Err())
		}
		next, err := postgres.Start(context.Background(), settings)
		for err != nil {
			log.Error("private Postgres does not start, trying again", "error", err)
			select {
			case <-stopping:
				return
			case <-time.After(restartPause):
			}
			next, err = postgres.Start(context.Background(), settings)
		}
		server = next
	}
}

// close undoes the opening, in reverse order.
func (in *infrastructure) close() {
	for i := len(in.closers) - 1; i >= 0; i-- {
		in.closers[i]()
	}
}
