package backup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/projections"
)

// keys reads the data keys.
func (in *Installation) keys(ctx context.Context) (keys map[uuid.UUID][]byte, err error) {
	err = in.withKeys(ctx, false, func(stored custody.Stored) (err error) {
		keys, err = stored.Read(ctx)
		return err
	})
	return keys, err
}

// addKeys adds data keys that are not there.
func (in *Installation) addKeys(ctx context.Context, keys map[uuid.UUID][]byte) error {
	return in.withKeys(ctx, true, func(stored custody.Stored) error { return stored.Fill(ctx, keys) })
}

// withKeys opens the data keys: all of them are in one place.
func (in *Installation) withKeys(ctx context.Context, migrate bool, use func(custody.Stored) error) error {
	if dir := in.Config.KeyDir(); dir != "" {
		return use(custody.InDir(dir))
	}
	if url := in.Config.KeyDatabase(); url != "" {
		stored, err := custody.InDatabase(url)
		if err != nil {
			return err
		}
		defer stored.Close()
		return use(stored)
	}
	if err := in.Config.DatabaseURL.CheckPostgres(); err != nil {
		return fmt.Errorf("CARILLON_DATABASE_URL: %w", err)
	}
	pool, err := pgxpool.New(ctx, in.Config.DatabaseURL.Reveal())
	if err != nil {
		return fmt.Errorf("CARILLON_DATABASE_URL: %w", err)
	}
	defer pool.Close()
	if migrate {
		if err := projections.Migrate(ctx, pool); err != nil {
			return err
		}
	}
	return use(custody.InTable(pool))
}

// nodeDir returns the directory of the embedded event store; "" if the event store is elsewhere.
func (in *Installation) nodeDir() string {
	if in.Config.EventStoreURL != "" {
		return ""
	}
	return filepath.Join(in.Config.DataDir, "eventstore")
}

// copyStore copies the event store into a node's directory, which it may find begun.
func (in *Installation) copyStore(ctx context.Context, dir string) error {
	if in.nodeDir() == "" {
		return in.carry(ctx, dir, false)
	}
	n, err := maintenance.Open(ctx, in.nodeDir(), in.Log)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil { // the rest of an interrupted backup
		return err
	}
	absolute, err := filepath.Abs(dir) // the running process may be in another directory
	if err != nil {
		return err
	}
	_, end := in.Progress("backing up")
	defer end()
	return n.Backup(ctx, absolute)
}

// restoreStore makes the event store of a node's directory. It does nothing if that was done.
func (in *Installation) restoreStore(ctx context.Context, dir string) error {
	if in.nodeDir() == "" {
		return in.carry(ctx, dir, true)
	}
	if begun, err := in.begun(ctx); err != nil || begun {
		return err // a restore was cut off after this; the comparison finds any other cause
	}
	copied, end := in.Progress("restoring")
	report, err := maintenance.Restore(ctx, dir, in.nodeDir(), in.Log, copied, nil)
	end()
	if err == nil && !report.OK() {
		err = fmt.Errorf("the backup is damaged; nothing was restored: %s", maintenance.ReportText(report))
	}
	return err
}

// begun reports whether there is data already, and fails if a server runs on it. For servers with names, only reading
// all of it shows that.
func (in *Installation) begun(ctx context.Context) (bool, error) {
	dir := in.nodeDir()
	if dir == "" {
		return true, nil
	}
	_, running, err := maintenance.Protocol(ctx, dir)
	if err == nil && running {
		err = fmt.Errorf("a server runs the event store in %s: stop it first", dir)
	}
	return err == nil && maintenance.Holds(dir), err
}

// carry copies the event store, which is elsewhere, into a node's directory, or back.
func (in *Installation) carry(ctx context.Context, dir string, back bool) error {
	target, end, err := maintenance.OpenAlone(dir, in.Log)
	if err != nil {
		return err
	}
	defer end()
	source, done, err := in.openStore()
	if err != nil {
		return err
	}
	defer done()
	if back {
		source, target = target, source
	}
	report, copied := in.Copying()
	defer copied()
	_, err = copying.Copy(ctx, source, target, copying.Options{CopyOnly: !back, Report: report})
	return err
}

func (in *Installation) openStore() (*esdb.Store, func(), error) {
	if dir := in.nodeDir(); dir != "" {
		return maintenance.OpenAlone(dir, in.Log)
	}
	opened, err := esdb.Open(in.Config.EventStoreURL.Reveal(), in.Log)
	if err != nil {
		return nil, nil, fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
	}
	return opened, func() { _ = opened.Close() }, nil
}
