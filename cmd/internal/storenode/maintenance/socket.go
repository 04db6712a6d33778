package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

const (
	socketName = "maintenance.sock"
	maxSocket  = 100 // bytes of a path; kernels take 103 or 107
)

// listen makes the socket in a node's directory. If that path is too long for one, the socket is elsewhere and a link
// to it is in the directory.
func listen(ctx context.Context, dir string) (listener net.Listener, remove func(), err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	name := filepath.Join(dir, socketName)
	if err := removeOld(name); err != nil {
		return nil, nil, err
	}
	path, linked := name, len(name) > maxSocket
	if linked {
		short, err := os.MkdirTemp("", "carillon-") // for this user only
		if err != nil {
			return nil, nil, err
		}
		path = filepath.Join(short, socketName)
	}
	remove = func() { _ = removeOld(name) }
	if linked {
		if err := os.Symlink(path, name); err != nil {
			return nil, nil, errors.Join(err, os.Remove(filepath.Dir(path)))
		}
	}
	if listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path); err != nil {
		remove()
		return nil, nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, nil, errors.Join(err, listener.Close())
	}
	return listener, remove, nil
}

// removeOld removes a socket that a process left behind, and the directory that a link to it names.
func removeOld(name string) error {
	if target, err := os.Readlink(name); err == nil && filepath.Base(target) == socketName {
		_ = os.Remove(target)
		_ = os.Remove(filepath.Dir(target)) // only if it is empty
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace the socket: %w", err)
	}
	return nil
}

// socketOf is the path of the socket of a node's directory.
func socketOf(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, socketName)
	if target, err := os.Readlink(name); err == nil {
		return target, nil
	}
	return name, nil
}
