//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MinVersion is the oldest major version of Postgres that Carillon's SQL runs on.
const MinVersion = 15

// ErrNotFound reports that no usable binaries were found. The error it is wrapped in is a *SearchError.
var ErrNotFound = errors.New("no usable postgres found")

// SearchError lists the places searched for binaries, and why those found were rejected.
type SearchError struct {
	Want  int      // the only major version that would do; 0: MinVersion or newer
	Tried []string // one line per place
	Keep  string   // why the existing cluster must not be replaced; empty: it was not asked for
}

func (e *SearchError) Error() string {
	want := fmt.Sprintf("version %d or newer", MinVersion)
	mend := "run deploy/install-postgres.sh, install the package of your system (postgresql), " +
		"set CARILLON_POSTGRES_BIN to a directory that holds postgres and initdb, " +
		"or set CARILLON_DATABASE_URL to a server that runs already"
	if e.Want != 0 {
		want = fmt.Sprintf("version %d, which made the existing cluster", e.Want)
		mend = fmt.Sprintf("install Postgres %d. Do not move the cluster away: read models would be rebuilt from the "+
			"events,"+
			" but its other data would be lost", e.Want)
		if e.Keep != "" {
			mend += " (" + e.Keep + ")"
		}
	}
	return fmt.Sprintf("%v (%s). Tried:\n  %s\nTo mend it: %s", ErrNotFound, want, strings.Join(e.Tried, "\n  "), mend)
}

// Is makes errors.Is(err, ErrNotFound) hold.
func (e *SearchError) Is(target error) bool { return target == ErrNotFound }

// Binaries is one installation of Postgres.
type Binaries struct {
	Dir     string // absolute; holds postgres and initdb
	Major   int
	Version string // as the server says it, for example "postgres (PostgreSQL) 17.5"
}

func (b Binaries) program(name string) string { return filepath.Join(b.Dir, name) }

// places are the directories, as glob patterns, where packages put the server's programs. Keep them in step with
// deploy/install-postgres.sh.
func places() []string {
	patterns := []string{
		"/usr/lib/postgresql/*/bin",                      // Debian, Ubuntu
		"/usr/pgsql-*/bin",                               // the project's RPMs
		"/usr/libexec/postgresql*",                       // Alpine
		"/opt/homebrew/opt/postgresql*/bin",              // Homebrew on Apple silicon
		"/usr/local/opt/postgresql*/bin",                 // Homebrew on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin", // Homebrew on Linux
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/opt/local/lib/postgresql*/bin", // MacPorts
		"/usr/local/pgsql/bin",           // built from source
		"/var/cache/carillon/postgres/*/bin",
	}
	if cache, err := os.UserCacheDir(); err == nil {
		patterns = append(patterns, filepath.Join(cache, "carillon", "postgres", "*", "bin"))
	}
	return patterns
}

// Find returns the binaries that Start would use for a new cluster: those in a directory, or in the usual places if it
// is empty. It fails with ErrNotFound, or with ErrNoAccount if no user can run them.
func Find(ctx context.Context, binDir string) (Binaries, error) {
	run, err := serverAccount("", -1)
	if err != nil {
		return Binaries{}, err
	}
	return find(ctx, run, binDir, 0)
}

// find returns the installation of the wanted major version, or with want 0 the newest of MinVersion or later. Only
// what the account can execute counts. With only set, no other directory is looked at.
func find(ctx context.Context, run account, only string, want int) (Binaries, error) {
	if only != "" {
		abs, err := filepath.Abs(only)
		if err != nil {
			return Binaries{}, fmt.Errorf("find postgres: %w", err)
		}
		return pick(ctx, run, []string{abs}, nil, want)
	}
	dirs, missed := candidates()
	return pick(ctx, run, dirs, missed, want)
}

// candidates are the directories that may hold binaries; missed says if there were none.
func candidates() (dirs, missed []string) {
	if path, err := exec.LookPath("postgres"); err != nil {
		missed = append(missed, "PATH: no postgres")
	} else if path, err = filepath.Abs(path); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, pattern := range places() {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			missed = append(missed, pattern+": none")
		}
		dirs = append(dirs, found...)
	}
	return dirs, missed
}

// pick chooses among the directories. The first of equal versions wins.
func pick(ctx context.Context, run account, dirs, missed []string, want int) (Binaries, error) {
	search := &SearchError{Want: want, Tried: missed}
	var best Binaries
	seen := map[string]bool{}
	for _, dir := range dirs {
		// A program in PATH may be a link into the directory of its package.
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
			dir = filepath.Dir(program)
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		b, err := inspect(ctx, run, dir)
		if err == nil {
			err = b.suits(want)
		}
		if err != nil {
			search.Tried = append(search.Tried, dir+": "+err.Error())
		} else if b.Major > best.Major {
			best = b
		}
	}
	if err := ctx.Err(); err != nil {
		return Binaries{}, fmt.Errorf("find postgres: %w", err)
	}
	if best.Major == 0 {
		return Binaries{}, search
	}
	return best, nil
}

func (b Binaries) suits(want int) error {
	switch {
	case want != 0 && b.Major != want:
		return fmt.Errorf("%s, not version %d", b.Version, want)
	case b.Major < MinVersion:
		return fmt.Errorf("%s is older than %d", b.Version, MinVersion)
	}
	return nil
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)`)

// inspect asks the server in dir for its version, as the user that would run it.
func inspect(ctx context.Context, run account, dir string) (Binaries, error) {
	b := Binaries{Dir: dir}
	for _, name := range []string{"postgres", "initdb"} {
		if info, err := os.Stat(b.program(name)); err != nil {
			return b, fmt.Errorf("no %s", name)
		} else if info.IsDir() {
			return b, fmt.Errorf("%s is a directory", name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := run.command(ctx, "/", b.program("postgres"), "--version").Output()
	if err != nil {
		return b, fmt.Errorf("user %s can't run it: %w", run.name, withStderr(err))
	}
	b.Version = strings.TrimSpace(string(out))
	m := versionLine.FindStringSubmatch(b.Version)
	if m == nil {
		return b, fmt.Errorf("unknown version %q", b.Version)
	}
	b.Major, err = strconv.Atoi(m[1])
	return b, err
}

// withStderr adds what the program said last to the error of running it.
func withStderr(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}

// clusterVersion reads the major version that made the cluster in data; 0 when there is no cluster.
func clusterVersion(data string) (int, error) {
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION")) //nolint:gosec // our own directory
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s/PG_VERSION is damaged, it holds no version of Postgres: restore %[1]s from a backup", data)
	}
	return major, nil
}
