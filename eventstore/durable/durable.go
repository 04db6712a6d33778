// Package durable makes changes of directories survive a loss of power.
package durable

import (
	"errors"
	"os"
)

// SyncDir returns once the names in a directory are on the disk: those of files that were made, renamed or removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // a directory of our own
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
