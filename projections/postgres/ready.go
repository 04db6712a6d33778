//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Answers of a server that matter while it starts.
const (
	codeStarting   = "57P03" // cannot_connect_now
	codeNoDatabase = "3D000" // invalid_catalog_name
)

// ready returns when the database accepts connections, and makes it when the cluster is new. It waits for as long as
// the server process lives and the context allows: a recovery takes its time.
func (s *Server) ready(ctx context.Context) error {
	cfg, err := pgx.ParseConfig(s.url)
	if err != nil {
		return fmt.Errorf("connect to postgres: %w", err)
	}
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	slow := time.NewTimer(3 * time.Second)
	defer slow.Stop()
	for {
		err := errStarting
		if s.saysReady() {
			err = s.ensureDatabase(ctx, cfg)
		}
		var answer *pgconn.PgError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &answer) && answer.Code != codeStarting, errors.Is(err, fs.ErrPermission):
			return fmt.Errorf("connect to postgres: %w", err)
		}
		select {
		case <-s.done:
			return s.err
		case <-ctx.Done():
			return fmt.Errorf("wait for postgres: %w (the last answer: %w)", ctx.Err(), err)
		case <-slow.C:
			s.cfg.Logger.Info("postgres is not ready yet: starting, or recovering after its last end",
				"last", err)
		case <-poll.C:
		}
	}
}

var errStarting = errors.New("the server is starting")

// saysReady reads the state of the server in the eighth line of its postmaster.pid, as pg_ctl does: asking for a
// connection too early would leave a line in the log each time.
func (s *Server) saysReady() bool {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(text), "\n")
	return len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" &&
		strings.TrimSpace(lines[0]) == strconv.Itoa(s.cmd.Process.Pid)
}

// ensureDatabase connects once, and makes the database if that is what is missing.
func (s *Server) ensureDatabase(ctx context.Context, cfg *pgx.ConnConfig) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	var answer *pgconn.PgError
	if errors.As(err, &answer) && answer.Code == codeNoDatabase {
		return createDatabase(ctx, cfg)
	}
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

func createDatabase(ctx context.Context, cfg *pgx.ConnConfig) (err error) {
	cfg = cfg.Copy()
	name := cfg.Database
	cfg.Database = "postgres"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return err
}

// maxLog is the size in bytes at which a start sets the log aside.
const maxLog = 16 << 20

func rotate(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < maxLog {
		return nil
	}
	if err == nil {
		err = os.Rename(path, path+".1")
	}
	if err != nil {
		return fmt.Errorf("rotate the log of postgres: %w", err)
	}
	return nil
}

// recentLog returns the log of this run of the server, at most its last 16 KiB.
func (s *Server) recentLog() string {
	f, err := os.Open(s.logPath)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // only read
	from := s.logFrom
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-16<<10)
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from, 16<<10))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
