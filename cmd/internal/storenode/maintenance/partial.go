package maintenance

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"carillon/eventstore/durable"
)

// newPartial makes a directory beside dir to restore into, and removes those that killed restores of dir have left.
// Each is locked for as long as its restore goes on, so that it is not mistaken for a leftover: call discard at the
// end.
func newPartial(dir string, log *slog.Logger) (partial string, discard func(), err error) {
	parent, prefix := filepath.Dir(dir), "."+filepath.Base(dir)+"-restoring-"
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		number, ours := strings.CutPrefix(entry.Name(), prefix)
		if ours && entry.IsDir() && number != "" && strings.Trim(number, "0123456789") == "" {
			removeLeftover(filepath.Join(parent, entry.Name()), log)
		}
	}
	if partial, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	// Without locks of the file system, other processes get none either, and nothing is removed.
	unlock, err := durable.Lock(partial)
	if err != nil {
		unlock = func() {}
	}
	return partial, func() {
		_ = os.RemoveAll(partial) // it has its name by then, or is worth nothing
		unlock()
	}, nil
}

func removeLeftover(dir string, log *slog.Logger) {
	unlock, err := durable.Lock(dir)
	if err != nil {
		return
	}
	defer unlock()
	if err := os.RemoveAll(dir); err != nil {
		log.Warn("leftovers of a killed restore not removed", "dir", dir, "error", err)
		return
	}
	log.Info("removed what a restore left that was killed", "dir", dir)
}
