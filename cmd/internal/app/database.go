package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/postgres"
	"carillon/projections/sessionlock"
)

const (
	mayNot  = "42501"     // insufficient_privilege
	tooMany = "53300"     // too_many_connections
	retry   = time.Second // between two attempts at a Postgres that is away

	stopTimeout    = 10 * time.Second
	restartPause   = time.Second
	connectTimeout = 5 * time.Second
	keyPoolSize    = 2 // one question about keys is in progress at a time; the other is for a connection that hangs

	// Sessions that were idle for that long are closed at the next look. The pool uses each once after a look, so that the
	// time must be shorter than the interval of looks.
	maxIdleSession = 20 * time.Second
	sessionLook    = 30 * time.Second
)

// openPools prepares all sessions of Postgres that this process has. None is opened yet. With that of the locks they
// are one more than the setting says; those idle for 20 s are closed.
func (s *stores) openPools(databaseURL string) error {
	poolConfig, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return errors.New("CARILLON_DATABASE_URL can't be parsed: it must look like postgres://user:password@host:5432/" +
			"carillon")
	}
	poolConfig.ConnConfig.ConnectTimeout = connectTimeout
	direct := poolConfig.ConnConfig
	if url := s.cfg.DatabaseDirectURL.Reveal(); url != "" {
		if direct, err = pgx.ParseConfig(url); err != nil {
			return errors.New("CARILLON_DATABASE_DIRECT_URL can't be parsed: it must look like " +
				"postgres://user:password@host:5432/carillon")
		}
		direct.ConnectTimeout = connectTimeout
		if !strings.Contains(databaseURL, "default_query_exec_mode") { // a pooler may know no prepared statements
			poolConfig.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
	}
	s.locks = sessionlock.New(direct, s.log)
	plain := &plainText{log: s.log}
	plain.stores(&s.cfg)
	poolConfig.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		plain.connected(conn)
		return compressQuickly(ctx, conn)
	}
	poolConfig.MaxConnIdleTime, poolConfig.HealthCheckPeriod = maxIdleSession, sessionLook
	for _, pool := range []struct {
		opened **pgxpool.Pool
		size   int
	}{
		{&s.pool, s.cfg.Connections() - 2*keyPoolSize},
		{&s.keyPool, keyPoolSize},
		{&s.sessionPool, keyPoolSize},
	} {
		sized := poolConfig.Copy()
		sized.MaxConns = int32(pool.size) //nolint:gosec // bounded by Validate
		if *pool.opened, err = pgxpool.NewWithConfig(context.Background(), sized); err != nil {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
		s.closers = append(s.closers, (*pool.opened).Close)
	}
	s.closers = append(s.closers, s.locks.Close)
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

// prepareDatabase makes what is missing of tables and views. Where Postgres is elsewhere and away it waits for it, as
// for the event store, and says so.
func (s *stores) prepareDatabase(ctx context.Context) error {
	for {
		err := s.makeTables(ctx)
		if err == nil || s.cfg.DatabaseURL == "" || ctx.Err() != nil {
			return err
		}
		trouble := DatabaseTrouble(err)
		if !away(err) {
			return trouble
		}
		s.log.Warn("waiting for Postgres", "error", trouble)
		select {
		case <-ctx.Done():
			return trouble
		case <-time.After(retry):
		}
	}
}

func (s *stores) makeTables(ctx context.Context) error {
	if err := s.locks.Open(ctx); err != nil {
		return err
	}
	if err := projections.CheckVersion(ctx, s.pool, Version); err != nil { // before anything is written
		return err
	}
	if err := projections.Migrate(ctx, s.pool); err != nil {
		return err
	}
	for _, m := range ReadModels() {
		if err := projections.EnsureSchema(ctx, s.pool, m); err != nil {
			return err
		}
	}
	return analytics.Ensure(ctx, s.pool, s.log)
}

// away reports that Postgres can't be reached, or does not take connections just now: waiting may mend that.
func away(err error) bool {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(answer.Code, "57P0") || answer.Code == tooMany // it starts, stops or has crashed
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, broken := errors.AsType[net.Error](err)
	return broken || errors.Is(err, io.ErrUnexpectedEOF)
}

// DatabaseTrouble explains a failed first use of CARILLON_DATABASE_URL, and how to repair it.
func DatabaseTrouble(err error) error {
	const setting = "CARILLON_DATABASE_URL (--database-url)"
	var answer *pgconn.PgError
	var failed *pgconn.ConnectError
	answered, connected := errors.As(err, &answer), !errors.As(err, &failed)
	switch {
	case errors.Is(err, sessionlock.ErrPooled):
		return fmt.Errorf("%s leads through a pooler in transaction mode: name the address of Postgres itself in "+
			"CARILLON_DATABASE_DIRECT_URL, "+
			"for the one session that a process keeps: %w", setting, err)
	case answered && answer.Code == mayNot:
		return fmt.Errorf("%s: its user may not make schemas: \"GRANT CREATE ON DATABASE … TO …\" lets it. %w", setting, err)
	case connected:
		return fmt.Errorf("%s: %w", setting, err)
	case answered:
		return fmt.Errorf("%s: Postgres is there and refuses: %s (SQLSTATE %s). Are user, password and database right?",
			setting, answer.Message, answer.Code)
	}
	return fmt.Errorf("%s: Postgres can't be reached: %s. Is it running there, and are host and port right?", setting,
		once(failed.Unwrap()))
}

// once is an error's text without repetition: the driver tries an address with TLS and without.
func once(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(slices.Compact(lines), "; ")
}
