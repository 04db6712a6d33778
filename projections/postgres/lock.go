//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// ErrInUse reports that another live process runs a server on the directory.
var ErrInUse = errors.New("the postgres directory is in use by another process")

// lockDir holds dir for this process until the file is closed or the process dies.
func lockDir(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // our own directory
	if err != nil {
		return nil, fmt.Errorf("lock the postgres directory: %w", err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
	if err == nil {
		return f, nil
	}
	if closeErr := f.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("%w: %s is locked", ErrInUse, path)
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// lock holds dir until unlock.
func (s *Server) lock(dir string) error {
	f, err := lockDir(dir)
	if err != nil {
		return err
	}
	s.locks = append(s.locks, f)
	return nil
}

func (s *Server) unlock() error {
	errs := make([]error, 0, 2*len(s.locks))
	for _, f := range s.locks {
		// Closing alone isn't enough: a process that is just being started holds a copy of the descriptor until it
		// runs.
		errs = append(errs, syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close()) //nolint:gosec // a descriptor fits
	}
	s.locks = nil
	return errors.Join(errs...)
}
