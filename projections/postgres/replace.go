//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"carillon/eventstore/durable"
)

// replace puts a cluster aside whose major version is not installed any more, if it may, and returns the binaries for a
// new one. missing is the error that the search for those of the old one came to.
func (s *Server) replace(ctx context.Context, run account, old int, missing error) (Binaries, error) {
	bin, err := find(ctx, run, s.cfg.BinDir, 0)
	if err != nil || s.cfg.Replaceable == nil {
		return bin, missing
	}
	if why := s.cfg.Replaceable(); why != nil {
		if search, ok := errors.AsType[*SearchError](missing); ok {
			search.Keep = why.Error()
		}
		return bin, missing
	}
	if err := stopOrphan(ctx, s.data(), s.cfg.Logger); err != nil {
		return bin, err
	}
	aside := filepath.Join(s.home, fmt.Sprintf("pgdata.version-%d.%s", old,
		time.Now().UTC().Format("20060102T150405.000")))
	if err := os.Rename(s.data(), aside); err != nil {
		return bin, fmt.Errorf("put the old postgres cluster aside: %w", err)
	}
	if err := durable.SyncDir(s.home); err != nil {
		return bin, err
	}
	s.cfg.Logger.Warn("the Postgres that made the cluster is not installed any more: a new cluster is made, "+
		"and read models are"+
		" rebuilt from the events; remove the old one when all is well", "was", old, "is", bin.Major, "old", aside)
	return bin, nil
}
