package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"carillon/cmd/internal/config"
)

// claim makes the directory of a backup with that of its keys, or takes one that this user has begun. It refuses what
// someone else has prepared: a link, or a file or directory that another user owns or may write to.
func claim(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another backup is running, and moves its files
		}
		if err != nil {
			return err
		}
		if !info.IsDir() && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is a link, or no file: a backup follows none; name another directory", path)
		}
		return config.CheckOwner(path, info)
	})
	if err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, keysDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
