package custody

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	epochPrefix  = "epoch-" // then the number
	epochKeySize = 32
)

// epoch is a key without which Postgres' rows don't open.
type epoch struct {
	number uint64 // the highest is in use
	key    []byte
}

// epochs keeps the epoch keys in directories that are copies of one another: a file for each key, with its SHA-256.
type epochs struct {
	disk

	dirs []string
}

// newEpochs returns the epoch keys of some directories; the same directory counts once.
func newEpochs(dirs ...string) *epochs {
	for i := range dirs {
		dirs[i] = filepath.Clean(dirs[i])
	}
	return &epochs{dirs: slices.Compact(dirs)}
}

// load returns every epoch key that some directory has, oldest first.
func (e *epochs) load() (all []epoch, err error) {
	for _, dir := range e.dirs {
		found, err := e.loadDir(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b epoch) int {
		return cmp.Or(cmp.Compare(a.number, b.number), bytes.Compare(a.key, b.key))
	})
	return slices.CompactFunc(all, func(a, b epoch) bool { return bytes.Equal(a.key, b.key) }), nil
}

func (e *epochs) loadDir(dir string) (found []epoch, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, epochPrefix+"*"))
	for _, path := range paths {
		content, err := readFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has destroyed it
		}
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(path), epochPrefix), "-")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil || len(content) < epochKeySize {
			continue
		}
		key := content[:epochKeySize]
		if sum := sha256.Sum256(key); bytes.Equal(content[epochKeySize:], sum[:]) {
			found = append(found, epoch{number: n, key: key})
		}
	}
	return found, err
}

// begin makes an epoch key in all directories.
func (e *epochs) begin(after uint64) error {
	next := epoch{number: after + 1, key: make([]byte, epochKeySize)}
	_, _ = rand.Read(next.key) // never fails, by its contract
	return e.copy(next)
}

// copy adds an epoch key to each directory that lacks it.
func (e *epochs) copy(added epoch) error {
	for _, dir := range e.dirs {
		if err := e.add(dir, added); err != nil {
			return err
		}
	}
	return nil
}

func (e *epochs) add(dir string, added epoch) error {
	sum := sha256.Sum256(added.key)
	content := append(bytes.Clone(added.key), sum[:]...)
	// Two directories that were apart may have different keys of one number.
	path := filepath.Join(dir, fmt.Sprintf("%s%d-%x", epochPrefix, added.number, sum[:4]))
	if there, err := readFile(path); err == nil && bytes.Equal(there, content) {
		return nil
	}
	return e.replace(path, content)
}

// destroy overwrites every epoch key but one, and damaged ones.
func (e *epochs) destroy(except epoch) error {
	for _, dir := range e.dirs {
		paths, err := filepath.Glob(filepath.Join(dir, epochPrefix+"*"))
		for _, path := range paths {
			content, readErr := readFile(path)
			if len(except.key) > 0 && readErr == nil && bytes.HasPrefix(content, except.key) {
				continue
			}
			err = errors.Join(err, e.erase(path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
