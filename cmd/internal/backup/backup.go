package backup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// Names in a backup.
const (
	storeDir     = "eventstore"
	partialStore = "eventstore.partial"
	keysDir      = "keys"
	streamsFile  = "streams.ndjson"
	manifestFile = "backup.json"
)

// Manifest says what a backup holds.
type Manifest struct {
	Dir       string    `json:"dir"`
	MadeAt    time.Time `json:"madeAt"`
	Events    uint64    `json:"events"`
	Streams   int       `json:"streams"`
	Keys      int       `json:"keys"`      // one for each destination and client certificate that lives
	MasterKey string    `json:"masterKey"` // the id of the master key that opens them
}

// Lost are those who live and of whom what is sealed opens with no key that is there.
type Lost struct{ custody.Lost }

// Error names them.
func (e *Lost) Error() string {
	return "data keys that open what is sealed are missing: of " + e.String()
}

// Installation is what is backed up and restored.
type Installation struct {
	Ring *sealing.Ring
	// Present is a ring of the master keys as they are now.
	Present func() (*sealing.Ring, error)
	// Keys reads the data keys, and AddKeys adds those that are not there.
	Keys    func(ctx context.Context) (map[uuid.UUID]custody.Key, error)
	AddKeys func(ctx context.Context, keys map[uuid.UUID]custody.Key) error
	// CopyStore copies the event store into a directory, which it may find begun; RestoreStore makes the event store of
	// such a directory, and does nothing where it is there.
	CopyStore    func(ctx context.Context, dir string) error
	RestoreStore func(ctx context.Context, dir string) error
	// Begun says whether the event store to restore holds something already. It fails where a server runs on it.
	Begun func(ctx context.Context) (bool, error)
	// OpenDirectory runs the node of a directory, and OpenStore opens the restored event store.
	OpenDirectory func(dir string) (*esdb.Store, func(), error)
	OpenStore     func(ctx context.Context) (*esdb.Store, func(), error)
	Progress      func(what string) (node.Progress, func())
	AcceptLost    bool
}

// Make makes a backup. One that was cut off goes on.
func (in *Installation) Make(ctx context.Context, dir string, now time.Time) (Manifest, error) {
	if _, err := os.Stat(filepath.Join(dir, manifestFile)); err == nil {
		return Manifest{}, fmt.Errorf("%s holds a whole backup: name another directory", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, keysDir), 0o700); err != nil {
		return Manifest{}, err
	}
	unlock, err := lock(dir)
	if err != nil {
		return Manifest{}, err
	}
	defer unlock()
	_, err = os.Stat(filepath.Join(dir, storeDir))
	resumed := err == nil
	made, err := in.make(ctx, dir, now)
	if _, lost := errors.AsType[*Lost](err); resumed && lost { // what was copied then is too old: something was deleted since
		if err := os.RemoveAll(filepath.Join(dir, storeDir)); err != nil {
			return made, err
		}
		made, err = in.make(ctx, dir, now)
	}
	return made, err
}

// make takes the keys before and after the event store: so it has those of all destinations that live in it, of those
// that are made meanwhile as well as of those that are deleted.
func (in *Installation) make(ctx context.Context, dir string, now time.Time) (Manifest, error) {
	if _, err := in.gather(ctx, filepath.Join(dir, keysDir)); err != nil {
		return Manifest{}, err
	}
	store := filepath.Join(dir, storeDir)
	if _, err := os.Stat(store); errors.Is(err, fs.ErrNotExist) {
		partial := filepath.Join(dir, partialStore)
		if err := in.CopyStore(ctx, partial); err != nil {
			return Manifest{}, err
		}
		if err := os.Rename(partial, store); err != nil {
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
	if lost := found.unopened(in.Ring, keys); lost.Any() && !in.AcceptLost {
		return Manifest{}, &Lost{lost}
	}
	maps.DeleteFunc(keys, func(id uuid.UUID, _ custody.Key) bool { _, live := found.live[id]; return !live })
	if err := custody.WriteSlots(filepath.Join(dir, keysDir), keys); err != nil {
		return Manifest{}, err
	}
	if err := writeStreams(filepath.Join(dir, streamsFile), found.list()); err != nil {
		return Manifest{}, err
	}
	// A backup is stored beside the master key that is there afterwards. That of before is gone for good after a rotation.
	present, err := in.Present()
	if err != nil {
		return Manifest{}, err
	}
	if present.Base() != in.Ring.Base() {
		return Manifest{}, errors.New("the master key was rotated while the backup was made, and does not open it: call the command again")
	}
	made := Manifest{
		Dir: dir, MadeAt: now.UTC().Truncate(time.Second), Events: found.events, Streams: len(found.streams), Keys: len(keys), MasterKey: in.Ring.Base().String(),
	}
	return made, writeManifest(filepath.Join(dir, manifestFile), made)
}

// gather adds the keys of the installation to those that the backup has, durably.
func (in *Installation) gather(ctx context.Context, dir string) (map[uuid.UUID]custody.Key, error) {
	keys, err := custody.ReadSlots(ctx, dir)
	if err != nil {
		return nil, err
	}
	present, err := in.Keys(ctx)
	if err != nil {
		return nil, err
	}
	for id, key := range present {
		if in.Ring.Opens(id, key.Wrapped) == nil {
			keys[id] = key
		}
	}
	return keys, custody.WriteSlots(dir, keys)
}

func (in *Installation) readDirectory(ctx context.Context, dir string) (contents, error) {
	store, end, err := in.OpenDirectory(dir)
	if err != nil {
		return contents{}, err
	}
	defer end()
	return in.read(ctx, store)
}

// Restore makes an installation of a backup, and verifies it. One that was cut off goes on.
func (in *Installation) Restore(ctx context.Context, dir string) (Manifest, error) {
	var made Manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestFile)) //nolint:gosec // the operator's own
	if errors.Is(err, fs.ErrNotExist) {
		return made, fmt.Errorf("%s holds no whole backup: it has no %s", dir, manifestFile)
	}
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		return made, fmt.Errorf("read the backup: %w", err)
	}
	if !slices.ContainsFunc(in.Ring.Masters(), func(id sealing.KeyID) bool { return id.String() == made.MasterKey }) {
		return made, fmt.Errorf("the backup was made with master key %s, and this is %s: CARILLON_MASTER_KEY, or master.key in the data directory, must be the one of then", made.MasterKey, in.Ring.Base())
	}
	want, err := readStreams(filepath.Join(dir, streamsFile))
	if err != nil {
		return made, err
	}
	if err := in.checkBegun(ctx, want); err != nil {
		return made, err
	}
	keys, err := custody.ReadSlots(ctx, filepath.Join(dir, keysDir))
	if err != nil {
		return made, err
	}
	if err := in.AddKeys(ctx, keys); err != nil {
		return made, fmt.Errorf("restore the data keys: %w", err)
	}
	if err := in.RestoreStore(ctx, filepath.Join(dir, storeDir)); err != nil {
		return made, err
	}
	return made, in.verify(ctx, want)
}

// checkBegun refuses an event store that holds what is not of the backup, before anything is restored: beside other
// events, the keys of a backup would bring back what those say is shredded.
func (in *Installation) checkBegun(ctx context.Context, want []copying.Stream) error {
	begun, err := in.Begun(ctx)
	if err != nil || !begun {
		return err
	}
	found, err := in.readStore(ctx)
	if err != nil {
		return err
	}
	known := map[string]copying.Stream{}
	for _, one := range want {
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
	return fmt.Errorf("stream %s is not as it is in the backup, or not in it: the event store must be empty before it is restored", stream)
}

func (in *Installation) readStore(ctx context.Context) (contents, error) {
	store, end, err := in.OpenStore(ctx)
	if err != nil {
		return contents{}, err
	}
	defer end()
	return in.read(ctx, store)
}

func (in *Installation) read(ctx context.Context, store *esdb.Store) (contents, error) {
	progress, done := in.Progress("verifying")
	defer done()
	return read(ctx, store, progress)
}

// verify compares what was restored with what the backup says.
func (in *Installation) verify(ctx context.Context, want []copying.Stream) error {
	found, err := in.readStore(ctx)
	if err != nil {
		return err
	}
	have := map[string]copying.Stream{}
	for _, one := range found.list() {
		have[one.Name] = one
	}
	for _, one := range want {
		if have[one.Name] != one {
			return fmt.Errorf("stream %s has %d events with SHA-256 %s, and in the backup it had %d with %s", one.Name, have[one.Name].Events, have[one.Name].SHA256, one.Events, one.SHA256)
		}
		delete(have, one.Name)
	}
	for name := range have {
		return notOfBackup(name)
	}
	keys, err := in.Keys(ctx)
	if err != nil {
		return err
	}
	if lost := found.unopened(in.Ring, keys); lost.Any() && !in.AcceptLost {
		return &Lost{lost}
	}
	return nil
}

// lock keeps other backups out of a directory. It ends with the process, however that ends.
func lock(dir string) (unlock func(), err error) {
	opened, err := os.Open(dir) //nolint:gosec // the operator's own
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("another backup into %s is under way: wait for it, or name another directory", dir)
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return func() { _ = opened.Close() }, nil
}

func writeStreams(path string, streams []copying.Stream) error {
	return whole(path, func(file io.Writer) error {
		encoder := json.NewEncoder(file)
		for _, one := range streams {
			if err := encoder.Encode(one); err != nil {
				return err
			}
		}
		return nil
	})
}

func writeManifest(path string, made Manifest) error {
	return whole(path, func(file io.Writer) error { return json.NewEncoder(file).Encode(made) })
}

// whole writes a file that has its name only once all of it is durable.
func whole(path string, write func(io.Writer) error) (err error) {
	file, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600) //nolint:gosec // the operator's own
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(file)
	err = write(lines)
	if err == nil {
		err = lines.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".partial", path)
}

func readStreams(path string) (list []copying.Stream, err error) {
	file, err := os.Open(path) //nolint:gosec // the operator's own
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	for decoder := json.NewDecoder(bufio.NewReader(file)); ; {
		var one copying.Stream
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		list = append(list, one)
	}
}
