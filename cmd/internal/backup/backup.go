package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/command/sealing"
	"carillon/eventstore/copying"
	"carillon/eventstore/durable"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// Names in a backup.
const (
	storeDir     = "eventstore"
	keysDir      = "keys"
	slotsFile    = "slots"
	streamsFile  = "streams.ndjson"
	manifestFile = "backup.json"
	partial      = ".partial" // suffix of incomplete directories
)

// Lost are those who live and of whom what is sealed opens with no key that is there.
type Lost struct{ custody.Lost }

// Error names them.
func (e *Lost) Error() string {
	return "data keys are missing: of " + e.String()
}

// Installation holds the parts that are backed up and restored.
type Installation struct {
	Config         config.Config // its places and its master key, as they were given
	AcceptLost     bool
	AcceptUnsigned bool // restores a backup that nothing authenticates
	Log            *slog.Logger
	// Progress shows the progress of a task until its end, and Copying that of a copy between event stores.
	Progress func(what string) (node.Progress, func())
	Copying  func() (func(copying.Progress), func())

	ring *sealing.Ring
}

// open reads the master key.
func (in *Installation) open() (err error) {
	if err := config.CheckWriter(in.Config.DataDir); err != nil {
		return err
	}
	in.ring, err = in.present()
	return err
}

// present returns a ring of the master keys as they are now.
func (in *Installation) present() (*sealing.Ring, error) {
	now := in.Config // reading fills it in
	masters, err := now.ReadMasters()
	if err != nil {
		return nil, err
	}
	return sealing.NewRing(masters[0], masters[1:]...)
}

// Make makes a backup, or continues an interrupted one.
func (in *Installation) Make(ctx context.Context, dir string, now time.Time) (Manifest, error) {
	if err := in.open(); err != nil {
		return Manifest{}, err
	}
	if err := claim(dir); err != nil {
		return Manifest{}, err
	}
	unlock, err := durable.Lock(dir)
	if errors.Is(err, durable.ErrLocked) {
		err = fmt.Errorf("another backup into %s is running: wait for it, or name another directory", dir)
	}
	if err != nil {
		return Manifest{}, err
	}
	defer unlock()
	// Under the lock: one that ended since would be written again.
	if _, err := os.Lstat(filepath.Join(dir, manifestFile)); err == nil {
		return Manifest{}, fmt.Errorf("%s holds a whole backup: name another directory", dir)
	}
	_, err = os.Stat(filepath.Join(dir, storeDir))
	resumed := err == nil
	made, err := in.make(ctx, dir, now)
	// the copy is too old: something was deleted since
	if _, lost := errors.AsType[*Lost](err); resumed && lost {
		if err := os.RemoveAll(filepath.Join(dir, storeDir)); err != nil {
			return made, err
		}
		made, err = in.make(ctx, dir, now)
	}
	return made, err
}

// make takes the keys before and after the event store: so it has those of all destinations that live in it, including
// ones made or deleted meanwhile.
func (in *Installation) make(ctx context.Context, dir string, now time.Time) (Manifest, error) {
	if _, err := in.gather(ctx, filepath.Join(dir, keysDir)); err != nil {
		return Manifest{}, err
	}
	store := filepath.Join(dir, storeDir)
	if _, err := os.Stat(store); errors.Is(err, fs.ErrNotExist) {
		copied := store + partial
		if err := in.copyStore(ctx, copied); err != nil {
			return Manifest{}, err
		}
		if err := os.Rename(copied, store); err != nil {
			return Manifest{}, err
		}
	}
	keys, err := in.gather(ctx, filepath.Join(dir, keysDir))
	if err != nil {
		return Manifest{}, err
	}
	found, err := in.readDirectory(ctx, store)
	if err != nil {
		return Manifest{}, err
	}
	if lost := found.unopened(in.ring, keys); lost.Any() && !in.AcceptLost {
		return Manifest{}, &Lost{lost}
	}
	maps.DeleteFunc(keys, func(id uuid.UUID, _ []byte) bool { _, live := found.owners.Live[id]; return !live })
	if err := writeKeys(filepath.Join(dir, keysDir), keys); err != nil {
		return Manifest{}, err
	}
	if err := writeStreams(filepath.Join(dir, streamsFile), found.list()); err != nil {
		return Manifest{}, err
	}
	// A backup is stored beside the master key that is there afterwards. That of before is gone permanently after a
	// rotation.
	present, err := in.present()
	if err != nil {
		return Manifest{}, err
	}
	if present.Base() != in.ring.Base() {
		return Manifest{}, errors.New("the master key was rotated while the backup was made, and does not open it: call " +
			"the command again")
	}
	made := Manifest{
		Dir:       dir,
		MadeAt:    now.UTC().Truncate(time.Second),
		Events:    found.events,
		Streams:   len(found.list()),
		Keys:      len(keys),
		MasterKey: in.ring.Base().String(),
		Log:       found.order(),
	}
	err = in.seal(dir, &made)
	return made, err
}

// gather adds the keys of the installation to those of the backup, durably.
func (in *Installation) gather(ctx context.Context, dir string) (map[uuid.UUID][]byte, error) {
	page, err := os.ReadFile(filepath.Join(dir, slotsFile)) //nolint:gosec // the operator's own
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	keys := custody.DecodeSlots(page)
	present, err := in.keys(ctx)
	if err != nil {
		return nil, err
	}
	for id, key := range present {
		if in.ring.Opens(id, key) == nil {
			keys[id] = key
		}
	}
	return keys, writeKeys(dir, keys)
}

func (in *Installation) readDirectory(ctx context.Context, dir string) (contents, error) {
	store, end, err := maintenance.OpenAlone(dir, in.Log)
	if err != nil {
		return contents{}, err
	}
	defer end()
	return in.read(ctx, store, true)
}

// Restore makes an installation of a backup, verifies it, and returns its manifest. It continues an interrupted
// restore.
func (in *Installation) Restore(ctx context.Context, dir string) (Manifest, error) {
	if err := in.open(); err != nil {
		return Manifest{}, err
	}
	from, err := in.load(dir)
	if err != nil {
		return Manifest{}, err
	}
	if err := in.checkBegun(ctx, &from); err != nil {
		return Manifest{}, err
	}
	if err := config.MarkRestored(in.Config.DataDir, false); err != nil {
		return Manifest{}, err
	}
	if err := in.addKeys(ctx, from.keys); err != nil {
		return Manifest{}, fmt.Errorf("restore the data keys: %w", err)
	}
	if err := in.restoreStore(ctx, filepath.Join(dir, storeDir)); err != nil {
		return Manifest{}, err
	}
	read, err := in.verify(ctx, dir, &from)
	if err != nil {
		return read, err
	}
	return read, config.MarkRestored(in.Config.DataDir, true)
}

// checkBegun refuses an event store that holds what is not of the backup, before anything is restored: beside other
// events, the keys of a backup would bring back what those say is shredded.
func (in *Installation) checkBegun(ctx context.Context, from *source) error {
	begun, err := in.begun(ctx)
	if err != nil || !begun {
		return err
	}
	found, err := in.readStore(ctx, from.made.Signed())
	if err != nil {
		return err
	}
	known := map[string]copying.Stream{}
	for _, one := range from.streams {
		known[one.Name] = one
	}
	for _, one := range found.list() {
		whole := known[one.Name]
		if one.Events > whole.Events || one.Events == whole.Events && one != whole {
			return notOfBackup(one.Name)
		}
	}
	return nil
}

func notOfBackup(stream string) error {
	return fmt.Errorf("stream %s differs from the backup, or is not in it: the event store must be empty before it "+
		"is restored", stream)
}

func (in *Installation) readStore(ctx context.Context, signed bool) (contents, error) {
	store, end, err := in.openStore()
	if err != nil {
		return contents{}, err
	}
	defer end()
	return in.read(ctx, store, signed)
}

func (in *Installation) read(ctx context.Context, store *esdb.Store, signed bool) (contents, error) {
	progress, done := in.Progress("verifying")
	defer done()
	return read(ctx, store, signed, progress)
}
