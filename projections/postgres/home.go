//go:build unix

package postgres

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// homeLink leads from the configured directory to a cluster that had to be put elsewhere.
const homeLink = "cluster-home"

// ownerFile names, in a cluster that was put elsewhere, the directory whose homeLink leads to it.
const ownerFile = "owner"

// defaultElsewhere is where root's clusters go when the server's user can't reach the configured directory.
func defaultElsewhere() string {
	if runtime.GOOS == "darwin" {
		return "/var/db/carillon"
	}
	return "/var/lib/carillon"
}

// makeDir makes the configured directory, and returns its real path. If root's server runs as another user, that user
// may pass through it; files in it are private.
func makeDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("postgres directory: %w", err)
	}
	if err := os.MkdirAll(abs, passable()); err != nil {
		return "", fmt.Errorf("postgres directory: %w", err)
	}
	if os.Geteuid() == 0 {
		// Best effort: if it can't be changed, the server's user proves unable to reach it.
		_ = os.Chmod(abs, passable())
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", fmt.Errorf("postgres directory: %w", err)
	}
	return resolved, nil
}

func passable() os.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// linkedHome follows the link that an earlier start left in dir. Without one it returns dir itself.
func linkedHome(dir string, logger *slog.Logger) (string, error) {
	link := filepath.Join(dir, homeLink)
	home, err := os.Readlink(link)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("find the postgres cluster: %w", err)
	}
	switch err := claimHome(dir, home); {
	case err == nil:
		return home, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotOurs):
		logger.Warn("the postgres cluster that this directory used is not its own any more: a new one will be made",
			"dir", dir, "cluster", home, "reason", err.Error())
		if err := os.Remove(link); err != nil {
			return "", fmt.Errorf("forget the lost postgres cluster: %w", err)
		}
		return dir, nil
	default:
		return "", fmt.Errorf("find the postgres cluster: %w", err)
	}
}

var errNotOurs = errors.New("the directory is a copy of another one, which uses that cluster")

// claimHome checks that home belongs to dir. A directory that was moved takes its cluster along; a copy must not share
// the cluster of the original.
func claimHome(dir, home string) error {
	path := filepath.Join(home, ownerFile)
	text, err := os.ReadFile(path) //nolint:gosec // below our own directory
	if err != nil {
		return err
	}
	owner := strings.TrimSpace(string(text))
	if owner == dir {
		return nil
	}
	if target, err := os.Readlink(filepath.Join(owner, homeLink)); err == nil && target == home {
		return fmt.Errorf("%w: %s", errNotOurs, owner)
	}
	return writeOwner(home, dir)
}

func writeOwner(home, dir string) error {
	return os.WriteFile(filepath.Join(home, ownerFile), []byte(dir+"\n"), 0o600)
}

// newHome makes a place for the cluster of dir below base and links to it. The name starts with a hash of dir, so that
// the remains of an earlier, deleted directory of that name can be recognized.
func newHome(dir, base string, logger *slog.Logger) (string, error) {
	if err := os.MkdirAll(base, 0o711); err != nil { //nolint:gosec // the server's user passes through it
		return "", fmt.Errorf("make a place for the postgres cluster: %w", err)
	}
	prefix := shortHash(dir) + "-"
	if old, err := filepath.Glob(filepath.Join(base, prefix+"*")); err == nil && len(old) > 0 {
		logger.Warn("an earlier directory of the same name left a postgres cluster behind; if it is not needed any more,"+
			" remove it", "dir", dir, "left", strings.Join(old, " "))
	}
	var suffix [4]byte
	_, _ = rand.Read(suffix[:]) // never fails
	home := filepath.Join(base, prefix+hex.EncodeToString(suffix[:]))
	if err := os.Mkdir(home, 0o711); err != nil { //nolint:gosec // the server's user passes through it
		return "", fmt.Errorf("make a place for the postgres cluster: %w", err)
	}
	if err := os.Chmod(home, 0o711); err != nil { //nolint:gosec // whatever the umask
		return "", fmt.Errorf("make a place for the postgres cluster: %w", err)
	}
	if err := writeOwner(home, dir); err != nil {
		return "", fmt.Errorf("make a place for the postgres cluster: %w", err)
	}
	if err := os.Symlink(home, filepath.Join(dir, homeLink)); err != nil {
		return "", fmt.Errorf("link to the postgres cluster: %w", err)
	}
	return home, nil
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}
