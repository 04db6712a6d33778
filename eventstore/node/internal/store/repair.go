package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// damagedDir keeps the logs as they were before a repair.
const damagedDir = "damaged"

// Repaired is the result of Repair.
type Repaired struct {
	// Damage is the damage found; nil if there was none.
	Damage *DamagedError
	// Kept is the directory of the damaged logs; empty if none was changed.
	Kept string
}

// Repair lists the acknowledged events that a store has lost at the end of its log. With acceptLoss it makes the store
// end before them, so that it opens again; the logs as they were are kept beside it. The store must not be in use.
func Repair(options Options, acceptLoss bool) (repaired Repaired, err error) {
	options.MustExist, options.ReadOnly = true, true
	s, err := Open(options)
	if err == nil {
		return Repaired{}, s.Close()
	}
	if !errors.As(err, &repaired.Damage) || !acceptLoss {
		if repaired.Damage != nil {
			err = nil
		}
		return repaired, err
	}
	options = options.withDefaults()
	lock, err := lockDirectory(options.FS, options.Dir)
	if err != nil {
		return repaired, err
	}
	kept := options.FS.PathJoin(options.Dir, damagedDir)
	if len(repaired.Damage.cuts) > 0 {
		repaired.Kept = kept
	}
	err = cutLogs(options.FS, options.Dir, kept, repaired.Damage.cuts)
	if err = errors.Join(err, lock.Close()); err != nil {
		return repaired, fmt.Errorf("repair: %w", err)
	}
	return repaired, openRepaired(options)
}

// openRepaired opens the store once, as its content is correct from then on.
func openRepaired(options Options) error {
	options.ReadOnly = false
	s, err := Open(options)
	if err != nil {
		return fmt.Errorf("open the repaired event store: %w", err)
	}
	return s.Close()
}

// cutLogs keeps copies of logs and cuts them off. The acknowledged position is forgotten last: killed before, the store
// is as damaged as it was, and repaired by the next run.
func cutLogs(files vfs.FS, dir, kept string, cuts map[string]int64) error {
	names := make([]string, 0, len(cuts))
	for name := range cuts {
		names = append(names, name)
	}
	slices.Sort(names)
	slices.Reverse(names) // the newest first: an older one that ends early must not be followed by it
	for _, name := range names {
		content, err := readFile(files, name)
		if err != nil {
			return err
		}
		if err := files.MkdirAll(kept, 0o700); err != nil {
			return err
		}
		copied := files.PathJoin(kept, files.PathBase(name))
		if _, err := files.Stat(copied); err != nil { // a killed repair may have kept it, and cut the log since
			if err := writeDurably(files, copied, content); err != nil {
				return err
			}
		}
		if cuts[name] == 0 {
			err = files.Remove(name)
		} else {
			partial := name + unfinished
			err = errors.Join(writeDurably(files, partial, content[:cuts[name]]), files.Rename(partial, name))
		}
		if err := errors.Join(err, syncDirectory(files, kept), syncDirectory(files, dir)); err != nil {
			return err
		}
	}
	said := files.PathJoin(dir, acknowledgedFile)
	return errors.Join(ignoreMissing(files.Remove(said)), syncDirectory(files, dir))
}

func writeDurably(files vfs.FS, name string, content []byte) error {
	file, err := files.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}
