package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// manifestState is the synced part of the database's list of its files. The list only grows until another one replaces
// it, so its former content is a prefix of the current one. Pebble treats a damaged list as one that a crash cut off,
// continues with the part before the damage, and removes the files that are not on it, events and all.
type manifestState struct {
	number uint64 // of the file
	length uint64
	sum    uint32 // CRC-32C of that length; 0 if a version before noted none
}

const (
	restoreAdvice = "Nothing was changed. " + keepAdvice
	keepAdvice    = "Keep the directory unchanged, and restore a backup (\"carillon eventstore restore\"), or copy the " +
		"directory again from a complete one"
)

// readManifest returns the state of the list that a database would be opened with; exists is false if there is no
// database.
func readManifest(files vfs.FS, dir string) (content []byte, number uint64, exists bool, err error) {
	about, err := pebble.Peek(dir, files)
	if err != nil || !about.Exists {
		return nil, 0, false, ignoreMissing(err)
	}
	content, err = readFile(files, about.ManifestFilename)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s is missing, the list of the database's files. %s", ErrCorrupt, about.ManifestFilename,
			restoreAdvice)
	}
	number, _ = manifestNumber(files.PathBase(about.ManifestFilename))
	return content, number, true, err
}

// checkManifest refuses a database whose list of files does not begin with its former content. verified is false if
// that is not known.
func checkManifest(files vfs.FS, dir string, noted manifestState) (verified, exists bool, err error) {
	content, number, exists, err := readManifest(files, dir)
	if err != nil || !exists {
		return false, exists, err
	}
	damaged := len(content) == 0
	if number == noted.number {
		damaged = damaged || uint64(len(content)) < noted.length ||
			noted.sum != 0 && crc32.Checksum(content[:noted.length], castagnoli) != noted.sum
		verified = noted.sum != 0
	}
	if damaged {
		return false, true, fmt.Errorf("%w: %s%06d, the list of the database's files, is damaged or cut off. %s",
			ErrCorrupt, manifestPrefix, number, restoreAdvice)
	}
	return verified, true, nil
}

// manifestFile is a manifest while it is written.
type manifestFile struct {
	*guardedFile

	state manifestState
}

// Write also counts what was written. The sum is taken before, as a file system of Pebble's tests alters what it has
// written.
func (f *manifestFile) Write(p []byte) (int, error) {
	sum := crc32.Update(f.state.sum, castagnoli, p)
	n, err := f.guardedFile.Write(p)
	if err != nil { // Pebble does not go on with this list
		return n, err
	}
	f.state.length += uint64(n) // #nosec G115 -- not negative
	f.state.sum = sum
	return n, nil
}

// Sync also reports the state of the manifest.
func (f *manifestFile) Sync() error {
	if err := f.File.Sync(); err != nil {
		return err
	}
	f.guard.manifestSynced(f.state)
	return nil
}
