package custody

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// A file of epoch keys: a header, then a sector for each.
//
//	sector   "EPO1" ‖ zeros (4 bytes) ‖ number (8) ‖ since, Unix seconds (8) ‖ zeros (8) ‖ key (32) ‖ SHA-256 of all that
const (
	epochFile    = "epoch.key"
	epochHeader  = "carillon epochs\n"
	epochMagic   = "EPO1"
	epochKeySize = 32
	epochSum     = 64 // where the checksum is
	maxEpochs    = 8
)

// Epoch is a key that Postgres' copy of the data keys can't be opened without.
type Epoch struct {
	Number uint64 // the highest is in use
	Key    []byte
	Since  time.Time
}

// Epochs keeps the epoch keys in files that are copies of one another. A key that is destroyed is overwritten in each.
type Epochs struct {
	mu    sync.Mutex
	files []*file
}

// NewEpochs makes files in some directories; the same directory counts once.
func NewEpochs(dirs ...string) *Epochs {
	e := &Epochs{}
	for _, dir := range dirs {
		path := filepath.Clean(filepath.Join(dir, epochFile))
		if !slices.ContainsFunc(e.files, func(f *file) bool { return f.path == path }) {
			e.files = append(e.files, &file{path: path, header: []byte(epochHeader)})
		}
	}
	return e
}

// Load gives every epoch key that some file has, oldest first.
func (e *Epochs) Load() ([]Epoch, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []Epoch
	for _, f := range e.files {
		err := f.hold(func(*os.File, bool) error {
			found, _, err := readEpochs(f)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b Epoch) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), bytes.Compare(a.Key, b.Key))
	})
	return slices.CompactFunc(all, func(a, b Epoch) bool { return a.Number == b.Number && bytes.Equal(a.Key, b.Key) }), nil
}

// Begin adds a new epoch key to all files, durably, and gives it.
func (e *Epochs) Begin(after uint64, now time.Time) (Epoch, error) {
	epoch := Epoch{Number: after + 1, Key: make([]byte, epochKeySize), Since: now}
	_, _ = rand.Read(epoch.Key) // never fails, by its contract
	return epoch, e.Copy([]Epoch{epoch})
}

// Copy adds to each file what it lacks of some epoch keys.
func (e *Epochs) Copy(epochs []Epoch) error {
	return e.each(func(f *file) error {
		found, free, err := readEpochs(f)
		if err != nil {
			return err
		}
		for _, epoch := range epochs {
			if slices.ContainsFunc(found, func(have Epoch) bool { return bytes.Equal(have.Key, epoch.Key) }) {
				continue
			}
			if len(free) == 0 {
				return fmt.Errorf("%s holds %d epoch keys already", f.path, maxEpochs)
			}
			if err := f.write(writeEpoch(epoch), free[0]); err != nil {
				return err
			}
			free = free[1:]
		}
		return nil
	})
}

// Destroy overwrites every epoch key but one in all files, and what is no whole key.
func (e *Epochs) Destroy(except Epoch) error {
	return e.each(func(f *file) error {
		for at := int64(sector); at <= maxEpochs*sector; at += sector {
			part := make([]byte, sector)
			if _, err := f.opened.ReadAt(part, at); err != nil && err != io.EOF { //nolint:errorlint // by its contract
				return fmt.Errorf("read %s: %w", f.path, err)
			}
			found, whole := readEpoch(part)
			if whole && bytes.Equal(found.Key, except.Key) || len(bytes.Trim(part, "\x00")) == 0 {
				continue
			}
			if err := f.write(make([]byte, sector), at); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close gives the files back.
func (e *Epochs) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.files {
		f.close()
	}
}

func (e *Epochs) each(do func(*file) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.files {
		if err := f.hold(func(*os.File, bool) error { return do(f) }); err != nil {
			return err
		}
	}
	return nil
}

// readEpochs reads the file's keys, and where there is room; the file must be held.
func readEpochs(f *file) (found []Epoch, free []int64, err error) {
	all := make([]byte, (1+maxEpochs)*sector)
	if _, err := f.opened.ReadAt(all, 0); err != nil && err != io.EOF { //nolint:errorlint // by its contract
		return nil, nil, fmt.Errorf("read %s: %w", f.path, err)
	}
	for at := sector; at < len(all); at += sector {
		if epoch, whole := readEpoch(all[at : at+sector]); whole {
			found = append(found, epoch)
		} else {
			free = append(free, int64(at))
		}
	}
	return found, free, nil
}

func writeEpoch(epoch Epoch) []byte {
	part := make([]byte, sector)
	copy(part, epochMagic)
	binary.LittleEndian.PutUint64(part[8:], epoch.Number)
	binary.LittleEndian.PutUint64(part[16:], uint64(epoch.Since.Unix())) //nolint:gosec // after 1970
	copy(part[32:], epoch.Key)
	sum := sha256.Sum256(part[:epochSum])
	copy(part[epochSum:], sum[:])
	return part
}

func readEpoch(part []byte) (epoch Epoch, whole bool) {
	sum := sha256.Sum256(part[:epochSum])
	if string(part[:len(epochMagic)]) != epochMagic || !bytes.Equal(sum[:], part[epochSum:epochSum+sha256.Size]) {
		return epoch, false
	}
	return Epoch{
		Number: binary.LittleEndian.Uint64(part[8:]), Key: bytes.Clone(part[32 : 32+epochKeySize]),
		Since: time.Unix(int64(binary.LittleEndian.Uint64(part[16:])), 0), //nolint:gosec // after 1970
	}, true
}
