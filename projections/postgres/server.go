//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrDied reports that a server ended without having been asked to.
var ErrDied = errors.New("postgres died")

// Config configures a server. Dir is required; the zero value of the rest will do.
type Config struct {
	Dir    string       // made when missing; see the package documentation for its content
	Logger *slog.Logger // nil means nothing is logged
	BinDir string       // the only directory to look for binaries in; empty: everywhere that is usual

	User      string // owner of a new cluster if the caller is root; empty: postgres, else nobody
	Elsewhere string // where root's cluster goes when its user can't reach Dir; empty: /var/lib/carillon

	Settings map[string]string // override the built-in settings, by their names in postgresql.conf

	Guests   string // members of this role connect by password. Optional.
	Loopback string // host:port at which guests connect besides the socket. Optional.

	// Replaceable reports whether a cluster that no binaries are there for any more may be put aside for a new one, which
	// is empty: nil, or why not. A Config without it never does so.
	Replaceable func() error

	// Disposable is for tests: the cluster need not outlast this process, so that making it is not synced, and when the
	// process ends, however it does, the server ends without a checkpoint and its directories are removed.
	Disposable bool
	// Template is a directory that keeps copies of new clusters, so that initdb runs but once. It must not be one that
	// others can write to. Empty: none.
	Template string
}

// Server is a running server.
type Server struct {
	cfg     Config
	dir     string // as configured
	home    string // holds the cluster: dir, or a directory elsewhere
	sockets string
	url     string
	logPath string
	logFrom int64 // offset of this run in the log

	cmd      *exec.Cmd
	watcher  *watcher
	locks    []*os.File
	stopping atomic.Bool
	done     chan struct{}
	err      error // set before done is closed
}

// Start makes the cluster if there is none, and returns when the server accepts connections. It fails with ErrNotFound
// when there are no binaries for it, and with ErrInUse when another process runs a server on the directory. The context
// bounds the start, not the life of the server.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	began := time.Now()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Elsewhere == "" {
		cfg.Elsewhere = defaultElsewhere()
	}
	s := &Server{cfg: cfg}
	if s.dir, err = makeDir(cfg.Dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	if err := s.lock(s.dir); err != nil {
		return nil, err
	}
	if s.home, err = linkedHome(s.dir, cfg.Logger); err != nil {
		return nil, err
	}
	bin, run, err := s.prepare(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.launch(ctx, bin, run); err != nil {
		return nil, err
	}
	cfg.Logger.Info("private postgres is up", "version", bin.Version, "bin", bin.Dir, "cluster", s.data(),
		"user", run.name, "socket", s.sockets, "took", time.Since(began).Round(time.Millisecond))
	return s, nil
}

// prepare brings everything about the cluster into the state in which a server can start on it.
func (s *Server) prepare(ctx context.Context) (Binaries, account, error) {
	run, err := serverAccount(s.cfg.User, ownerOf(s.data()))
	if err != nil {
		return Binaries{}, run, err
	}
	want, err := clusterVersion(s.data())
	if err != nil {
		return Binaries{}, run, err
	}
	bin, err := find(ctx, run, s.cfg.BinDir, want)
	if errors.Is(err, ErrNotFound) && want != 0 {
		if bin, err = s.replace(ctx, run, want, err); err == nil {
			want = 0
		}
	}
	if err != nil {
		return bin, run, err
	}
	if err := s.findHome(ctx, bin, run, want != 0); err != nil {
		return bin, run, err
	}
	if err := stopOrphan(ctx, s.data(), s.cfg.Logger); err != nil {
		return bin, run, err
	}
	if err := ensureCluster(ctx, s.home, run, bin, s.cfg); err != nil {
		return bin, run, err
	}
	if s.sockets, err = socketDir(s.home, s.cfg.port(), run); err != nil {
		return bin, run, err
	}
	client, err := callerName()
	if err != nil {
		return bin, run, err
	}
	s.url = socketURL(s.sockets, s.cfg.port())
	s.logPath = filepath.Join(s.dir, "postgres.log")
	return bin, run, writeSettings(s.home, s.sockets, client, s.cfg)
}

// findHome finds a home for the cluster that the server's user can reach.
func (s *Server) findHome(ctx context.Context, bin Binaries, run account, exists bool) error {
	if run.drop {
		err := reach(ctx, s.home, bin, run)
		if err != nil && (exists || s.home != s.dir) {
			return fmt.Errorf("user %s, whom the cluster belongs to, can't reach it any more"+
				" (let others pass through the directories above it: chmod o+x): %w", run.name, err)
		}
		if err != nil {
			home, newErr := newHome(s.dir, s.cfg.Elsewhere, s.cfg.Logger)
			if newErr != nil {
				return errors.Join(err, newErr)
			}
			if newErr := reach(ctx, home, bin, run); newErr != nil {
				return errors.Join(err, newErr)
			}
			s.home = home
			s.cfg.Logger.Info("postgres does not run as root, and the user it runs as can't reach the data directory:"+
				" the cluster is kept elsewhere", "user", run.name, "dir", s.dir, "cluster", home)
		}
	}
	if s.home == s.dir {
		return nil
	}
	return s.lock(s.home)
}

// reach proves that the account can enter dir and own something in it.
func reach(ctx context.Context, dir string, bin Binaries, run account) error {
	if err := run.command(ctx, dir, bin.program("postgres"), "--version").Run(); err != nil {
		return fmt.Errorf("user %s in %s: %w", run.name, dir, err)
	}
	probe, err := os.MkdirTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("try %s: %w", dir, err)
	}
	return errors.Join(run.give(probe), os.Remove(probe))
}

// URL is the address of the database, for pgx and psql. It holds no secret: only this user can connect.
func (s *Server) URL() string { return s.url }

// Dirs are the directories that hold everything the server has stored: the configured one and, when the cluster had to
// be put elsewhere, that place.
func (s *Server) Dirs() []string {
	if s.home == s.dir {
		return []string{s.dir}
	}
	return []string{s.dir, s.home}
}

// Done is closed when the server has ended, for whatever reason. The directory is free by then.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns why the server ended: nil while it runs and after Stop or Kill, else an error that wraps ErrDied.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop shuts the server down: sessions end, everything is written. When the context ends first, the server is stopped
// without that, and recovers at its next start. A second Stop does nothing.
func (s *Server) Stop(ctx context.Context) error {
	s.stopping.Store(true)
	if err := s.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		s.abort()
		return fmt.Errorf("postgres was stopped without a clean shutdown: %w", ctx.Err())
	}
}

// Kill ends the server as a power loss would, as seen from outside, and returns when it is gone.
func (s *Server) Kill() error {
	s.stopping.Store(true)
	if err := s.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-s.done
	return nil
}

func (s *Server) data() string { return filepath.Join(s.home, "pgdata") }

func socketURL(dir, port string) string {
	query := url.Values{"host": {dir}, "port": {port}, "sslmode": {"disable"}}
	encoded := strings.ReplaceAll(query.Encode(), "+", "%20") // to pgx a plus is no space
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.User(role),
		Host:     "",
		Path:     "/" + database,
		RawQuery: encoded,
	}).String()
}
