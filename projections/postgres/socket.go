//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// maxSocketPath fits a socket address on every system: 107 bytes on Linux, 103 on macOS and the BSDs.
const maxSocketPath = 103

// socketDir makes the directory of the socket: in home, or, if the path is too long for a socket address or the file
// system has no sockets, at a short path that depends on home alone.
func socketDir(home, port string, run account) (string, error) {
	name := "carillon-" + shortHash(home)
	candidates := []string{filepath.Join(home, "run")}
	if run.drop {
		candidates = append(candidates, filepath.Join("/run", name))
	} else if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		candidates = append(candidates, filepath.Join(dir, name))
	}
	candidates = append(candidates, filepath.Join(os.TempDir(), name), filepath.Join("/tmp", name))
	var tried []error
	for _, dir := range candidates {
		if path := filepath.Join(dir, ".s.PGSQL."+port); len(path) > maxSocketPath {
			tried = append(tried, fmt.Errorf("%s: %d bytes, over %d", path, len(path), maxSocketPath))
			continue
		}
		err := privateDir(dir, run)
		if err == nil {
			err = tryListen(dir)
		}
		if err == nil {
			return dir, nil
		}
		tried = append(tried, err)
	}
	return "", fmt.Errorf("no directory for the socket of postgres: %w", errors.Join(tried...))
}

// privateDir makes sure that dir is a directory that only the account (and root) can look into. In a directory that all
// users may write to, another user may have made it first.
func privateDir(dir string, run account) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := ownerOf(dir)
	if !info.IsDir() || owner != run.uid && owner != os.Geteuid() {
		return fmt.Errorf("%s exists and is not a directory of user %s", dir, run.name)
	}
	if owner != run.uid {
		if err := run.give(dir); err != nil {
			return err
		}
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(dir, 0o700) //nolint:gosec // a directory
	}
	return nil
}

func tryListen(dir string) error {
	path := filepath.Join(dir, ".probe")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	return l.Close() // removes the file
}
