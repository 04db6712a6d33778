package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"carillon/eventstore/durable"
)

// restoredFile is in a data directory whose event store comes from a backup, until a server was started with the flag
// to replace the one that was backed up.
const restoredFile = "restored"

// Content of the file.
const (
	restoreBegun = "begun\n"
	restoreWhole = "whole\n"
)

// MarkRestored notes durably that a data directory comes from a backup: that its restore has begun, or that it is
// whole.
func MarkRestored(dataDir string, whole bool) error {
	text := restoreBegun
	if whole {
		text = restoreWhole
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return err
	}
	return durable.Write(filepath.Join(dataDir, restoredFile), func(file io.Writer) error {
		_, err := io.WriteString(file, text)
		return err
	})
}

// CheckRestored refuses to send or visit anything from a data directory that comes from a backup, before AfterRestore
// says that this is meant. It reports whether the directory comes from a backup, and was not taken over yet.
func (c *Config) CheckRestored() (restored bool, err error) {
	path := filepath.Join(c.DataDir, restoredFile)
	text, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
	acts := slices.ContainsFunc([]string{RoleDispatch, RoleDeliver, RoleCollect}, c.Is)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("data directory: %w", err)
	case string(text) != restoreWhole:
		return true,
			fmt.Errorf("the restore into %s was not finished, so what is there was not compared with the backup: call it "+
				"again. "+
				"If it fails and there is no event store of it, remove %s", c.DataDir, path)
	case !c.AfterRestore && acts:
		return true,
			fmt.Errorf("%s was restored from a backup, and has not sent or visited anything since: events sent after the "+
				"backup was made would be sent again. "+
				"To look at it, start it with --roles api,project. To let it take the place of the server that the backup is of, "+
				"stop that one, and start this with --after-restore", c.DataDir)
	}
	return true, nil
}

// TakeOver notes durably that a restored data directory takes the place of the one that was backed up.
func (c *Config) TakeOver() error {
	if err := os.Remove(filepath.Join(c.DataDir, restoredFile)); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return durable.SyncDir(c.DataDir)
}
