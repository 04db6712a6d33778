package backup

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore/copying"
	"carillon/eventstore/durable"
)

// Manifest describes what a backup holds, or what a restore has read of it.
type Manifest struct {
	Dir       string    `json:"dir"`
	MadeAt    time.Time `json:"madeAt,omitzero"`
	Events    uint64    `json:"events"`
	Streams   int       `json:"streams"`
	Keys      int       `json:"keys"`      // one for each destination and client certificate that lives
	MasterKey string    `json:"masterKey"` // the id of the master key that opens them
	// Log is the SHA-256 of the order of all events; StreamsFile and SlotsFile are those of the two files.
	Log         string `json:"log,omitempty"`
	StreamsFile string `json:"streamsFile,omitempty"`
	SlotsFile   string `json:"slotsFile,omitempty"`
	// MAC authenticates all other fields, by a key that is derived from the master key. Empty: an earlier version made
	// the backup.
	MAC string `json:"mac,omitempty"`
}

// Signed reports whether the manifest has a MAC.
func (m *Manifest) Signed() bool { return m.MAC != "" }

// macPurpose separates the key of backups from others that are derived from the master key.
const macPurpose = "backup"

// authenticate returns the MAC that a manifest must have.
func (m *Manifest) authenticate(ring *sealing.Ring, master sealing.KeyID) (string, error) {
	plain := *m
	plain.MAC = ""
	text, err := json.Marshal(plain)
	if err != nil {
		return "", err
	}
	mac, err := ring.Authenticate(master, macPurpose, text)
	return hex.EncodeToString(mac), err
}

// source is a backup that is to be restored.
type source struct {
	made    Manifest
	streams []copying.Stream
	keys    map[uuid.UUID][]byte
}

// unsignedRisk is the risk that an operator accepts with --accept-unsigned.
const unsignedRisk = "an attacker with write access to it may have added operators, keys and addresses"

// errUnsigned: the backup has no MAC.
var errUnsigned = errors.New("the backup is not signed: " + unsignedRisk +
	". Versions before signatures made such backups; " +
	"where you are sure of that place, call the command with --accept-unsigned")

// ErrForged: the backup is signed, and was changed afterwards.
var ErrForged = errors.New("the backup was changed after it was made: it is refused")

// ReadManifest reads what a backup says of itself. It verifies nothing.
func ReadManifest(dir string) (made Manifest, err error) {
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
	return made, nil
}

// load reads a backup's manifest, streams and keys, and checks that they are what this installation's master key
// signed.
func (in *Installation) load(dir string) (source, error) {
	var from source
	var err error
	if from.made, err = ReadManifest(dir); err != nil {
		return from, err
	}
	if err := in.checkManifest(&from.made); err != nil {
		return from, err
	}
	streams, err := from.made.readFile(dir, streamsFile, from.made.StreamsFile)
	if err != nil {
		return from, err
	}
	if from.streams, err = parseStreams(streams); err != nil {
		return from, err
	}
	slots, err := from.made.readFile(dir, filepath.Join(keysDir, slotsFile), from.made.SlotsFile)
	from.keys = custody.DecodeSlots(slots)
	return from, err
}

func (in *Installation) checkManifest(made *Manifest) error {
	master, known := in.master(made.MasterKey)
	if !known {
		return fmt.Errorf("the backup was made with master key %.16q, and this is %s: CARILLON_MASTER_KEY, or master.key "+
			"in the data directory, must be the one of then", made.MasterKey, in.ring.Base())
	}
	if !made.Signed() {
		if in.AcceptUnsigned {
			return nil
		}
		return errUnsigned
	}
	want, err := made.authenticate(in.ring, master)
	if err != nil {
		return err
	}
	if !hmac.Equal([]byte(want), []byte(made.MAC)) {
		return fmt.Errorf("%w (%s)", ErrForged, manifestFile)
	}
	return nil
}

// master finds the master key of an id.
func (in *Installation) master(id string) (sealing.KeyID, bool) {
	for _, known := range in.ring.Masters() {
		if known.String() == id {
			return known, true
		}
	}
	return sealing.KeyID{}, false
}

// readFile reads a file of the backup, which must have a hash if the manifest is signed.
func (m *Manifest) readFile(dir, name, want string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // the operator's own
	if err != nil {
		return nil, fmt.Errorf("read the backup: %w", err)
	}
	if m.Signed() && hash(text) != want {
		return nil, fmt.Errorf("%w (%s)", ErrForged, name)
	}
	return text, nil
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func hashFile(path string) (string, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own
	return hash(text), err
}

// seal signs a manifest and writes it, last of all.
func (in *Installation) seal(dir string, made *Manifest) (err error) {
	if made.StreamsFile, err = hashFile(filepath.Join(dir, streamsFile)); err != nil {
		return err
	}
	if made.SlotsFile, err = hashFile(filepath.Join(dir, keysDir, slotsFile)); err != nil {
		return err
	}
	if made.MAC, err = made.authenticate(in.ring, in.ring.Base()); err != nil {
		return err
	}
	return whole(filepath.Join(dir, manifestFile), func(file io.Writer) error {
		return json.NewEncoder(file).Encode(made)
	})
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

func parseStreams(text []byte) (list []copying.Stream, err error) {
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var one copying.Stream
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", streamsFile, err)
		}
		list = append(list, one)
	}
}

// whole writes a file that gets its name only once all of it is durable. The leftover of an interrupted one is removed,
// not written to: it may be a link.
func whole(path string, write func(io.Writer) error) (err error) {
	if err := os.Remove(path + partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path+partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator's own
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
	if err := os.Rename(path+partial, path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// writeKeys makes a directory of a backup hold some keys and no others, all at once.
func writeKeys(dir string, keys map[uuid.UUID][]byte) error {
	page, err := custody.EncodeSlots(keys)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return whole(filepath.Join(dir, slotsFile), func(file io.Writer) error {
		_, err := file.Write(page)
		return err
	})
}

// verify compares what was restored with the backup, and returns what it has read.
func (in *Installation) verify(ctx context.Context, dir string, from *source) (Manifest, error) {
	var read Manifest
	found, err := in.readStore(ctx, from.made.Signed())
	if err != nil {
		return read, err
	}
	have := map[string]copying.Stream{}
	for _, one := range found.list() {
		have[one.Name] = one
	}
	for _, one := range from.streams {
		if have[one.Name] != one {
			return read, fmt.Errorf("stream %s has %d events with SHA-256 %s, and in the backup it had %d with %s",
				one.Name, have[one.Name].Events, have[one.Name].SHA256, one.Events, one.SHA256)
		}
		delete(have, one.Name)
	}
	for name := range have {
		return read, notOfBackup(name)
	}
	if from.made.Signed() && found.order() != from.made.Log {
		return read, fmt.Errorf("%w (the order of its events)", ErrForged)
	}
	keys, err := in.keys(ctx)
	if err != nil {
		return read, err
	}
	lost := found.unopened(in.ring, keys)
	if lost.Any() && !in.AcceptLost {
		return read, &Lost{lost}
	}
	read = Manifest{
		Dir:       dir,
		Events:    found.events,
		Streams:   len(from.streams),
		Keys:      len(found.owners.Live) - len(lost.Destinations) - len(lost.Certificates),
		MasterKey: from.made.MasterKey,
	}
	if from.made.Signed() {
		read.MadeAt, read.MAC = from.made.MadeAt, from.made.MAC
	}
	return read, nil
}
