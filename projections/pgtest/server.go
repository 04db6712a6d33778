//go:build unix

package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/storetest/must"
	"carillon/projections/analytics"
	"carillon/projections/postgres"
)

// settings trade durability for speed, but only against a power loss: the kernel has the commits of a killed server.
var settings = map[string]string{
	"fsync": "off",
	// as many tests run side by side, some with two servers
	"max_connections":            strconv.Itoa(max(300, 80*runtime.GOMAXPROCS(0))),
	"shared_buffers":             "64MB",
	"wal_level":                  "minimal",
	"max_wal_senders":            "0",
	"max_wal_size":               "256MB",
	"wal_init_zero":              "off",
	"wal_compression":            "off",
	"checkpoint_timeout":         "1h",
	"dynamic_shared_memory_type": "mmap", // in the directory, so that it goes with it when the server is killed
}

const dirPrefix = "carillon-pgtest-"

// start starts a server in dir, or in a new directory when dir is empty.
func start(ctx context.Context, dir string) (*postgres.Server, error) {
	if dir == "" {
		base := FastDir()
		sweep(base)
		var err error
		if dir, err = numbered(base); err != nil {
			return nil, fmt.Errorf("make a directory for the test server: %w", err)
		}
	}
	template := ""
	if cache, err := os.UserCacheDir(); err == nil {
		template = filepath.Join(cache, "carillon", "pgtest")
	}
	srv, err := postgres.Start(ctx, postgres.Config{
		Dir:        dir,
		BinDir:     os.Getenv("CARILLON_POSTGRES_BIN"),
		Elsewhere:  "/var/tmp/" + dirPrefix + "clusters",
		Settings:   settings,
		Guests:     analytics.Role,
		Disposable: true,
		Template:   template,
		Logger:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return srv, nil
}

// numbered makes the first directory that is not there yet.
func numbered(base string) (dir string, err error) {
	for n := 0; n == 0 || errors.Is(err, fs.ErrExist); n++ {
		dir = filepath.Join(base, dirPrefix+strconv.Itoa(n))
		err = os.Mkdir(dir, 0o700)
	}
	return dir, err
}

// FastDir is a directory in memory if there is plenty of it, which makes a database three times as fast as a disk that
// others sync; else the directory for temporary files. TMPDIR is respected.
func FastDir() string {
	const memory, plenty = "/dev/shm", 2 << 30
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &st) == nil &&
		uint64(st.Bavail)*uint64(st.Bsize) > plenty { //nolint:gosec,unconvert // sizes; their types differ by system
		return memory
	}
	return os.TempDir()
}

// sweep removes the directories of runs whose watching shell was killed too: those an hour old and not locked.
func sweep(tmp string) {
	dirs, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		f, err := os.Open(filepath.Join(dir, "lock")) //nolint:gosec // a lock file
		if err != nil {
			continue
		}
		info, err := f.Stat()
		old := err == nil && time.Since(info.ModTime()) > time.Hour
		if old && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil { //nolint:gosec // a descriptor fits
			_ = os.RemoveAll(dir) // may belong to someone else
		}
		_ = f.Close() // only locked
	}
}

// Run is a server for all test binaries of a run. It ends with this process.
type Run struct {
	URL string
	srv *postgres.Server
}

// Serve starts a server for the test binaries of a run. It fails where Postgres does not start.
//
// Its address is that of the run before, unless that goes on beside it: so Go keeps the results of the packages that
// did not change, as it does of those without Postgres.
func Serve(ctx context.Context) (*Run, error) {
	srv, err := start(ctx, "")
	if err != nil {
		return nil, err
	}
	return &Run{URL: srv.URL(), srv: srv}, nil
}

// Stop ends the server and removes its directories.
func (r *Run) Stop() error {
	dirs := r.srv.Dirs()
	err := r.srv.Kill()
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// Server is a server of one test's own.
type Server struct {
	t   testing.TB
	url string

	mu     sync.Mutex
	srv    *postgres.Server
	dirs   []string
	killed bool // and not restarted since
}

// NewServer starts a server for the test alone; it is gone when the test ends. It is a real process, so that it takes
// some 100 ms and 40 MB of disk: for fault tests only.
func NewServer(t testing.TB) *Server {
	t.Helper()
	srv := must.Get(start(t.Context(), ""))(t)
	s := &Server{
		t:    t,
		url:  srv.URL(),
		srv:  srv,
		dirs: srv.Dirs(),
	}
	t.Cleanup(func() {
		if s.killed {
			s.Restart() // a killed server leaves shared memory behind, which its successor cleans up
		}
		s.Stop()
		for _, dir := range s.dirs {
			must.OK(t, os.RemoveAll(dir))
		}
	})
	return s
}

// URL is the address of the server's database. It stays the same over restarts.
func (s *Server) URL() string { return s.url }

// Pool returns a pool of connections to the server's database; it is closed when the test ends. It can be opened while
// the server is down.
func (s *Server) Pool() *pgxpool.Pool {
	s.t.Helper()
	return open(s.t, s.url)
}

// Kill ends the server by SIGKILL and returns when it is gone. Commits that were acknowledged are there again after
// Restart.
func (s *Server) Kill() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	must.OK(s.t, s.srv.Kill())
	s.killed = true
}

// Stop shuts the server down in good order: sessions end with an error, everything is written.
func (s *Server) Stop() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	must.OK(s.t, s.srv.Stop(ctx))
}

// Restart starts the server again on the same data and at the same address, and returns when it accepts connections. A
// running server is killed first.
func (s *Server) Restart() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	must.OK(s.t, s.srv.Kill())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	srv := must.Get(start(ctx, s.dirs[0]))(s.t)
	s.srv, s.killed = srv, false
}
