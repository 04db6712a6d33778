package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// CheckOwner refuses a file or directory that another user may change: one that belongs to neither this user nor root,
// or that a group or all users may write to. A group with the owner's number is private to the owner.
func CheckOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	user := uint32(os.Geteuid()) //nolint:gosec // not negative where files have owners
	if stat.Uid != user && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, and this is user %d: run this as its owner, or run \"chown %d %s\" if "+
			"all of it is to be trusted",
			path, stat.Uid, user, user, path)
	}
	mode := info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && stat.Gid != stat.Uid {
		return fmt.Errorf("others may write to %s: run \"chmod go-w %s\" if all of it is to be trusted, or name a "+
			"directory in it that is this user's alone", path, path)
	}
	return nil
}

// CheckWriter refuses root a directory of another user, who could not read what root adds to it.
func CheckWriter(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return nil //nolint:nilerr // it is created, or opening it fails
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid != 0 {
		return fmt.Errorf("%s belongs to user %d, who could not read what root adds to it: run this as its owner "+
			"(runuser -u USER -- carillon …)", dir, stat.Uid)
	}
	return nil
}

// CheckOwners refuses a data directory, or secrets in it, that another user can have put there.
func (c *Config) CheckOwners() error {
	for _, name := range []string{"", MasterKeyFile, nextMasterKeyFile, AdminTokenFile, SealKeyFile} {
		path := filepath.Join(c.DataDir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = CheckOwner(path, info)
		}
		if err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
	}
	return nil
}
