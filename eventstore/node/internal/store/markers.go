package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

const (
	manifestPrefix = "MANIFEST-"
	manifestMarker = "marker.manifest."
	formatMarker   = "marker.format-version."
	// firstManifest is the number of a new database's manifest.
	firstManifest = 1
)

// MissingMarkerError reports that a database lacks an empty file that its others are found by. Some programs that copy
// directories leave empty files out. Without it Pebble begins a new database and removes the tables of the old one.
type MissingMarkerError struct {
	Dir string
	// Create are the files to make, empty.
	Create []string
}

// Unwrap makes it ErrCorrupt.
func (e *MissingMarkerError) Unwrap() error { return ErrCorrupt }

func (e *MissingMarkerError) Error() string {
	if len(e.Create) == 0 {
		return fmt.Sprintf("%s holds tables or logs of an event store, but no manifest that says which belong to it: "+
			"copy the directory again, or restore a backup. Nothing was changed", e.Dir)
	}
	return fmt.Sprintf("%s holds an event store, but an empty file is missing that says so: a copy may have left empty "+
		"files out. Copy them, too; or make them: (cd '%s' && touch %s). Nothing was changed",
		e.Dir, e.Dir, strings.Join(e.Create, " "))
}

// checkMarkers refuses a directory that holds a database without its markers.
func checkMarkers(files vfs.FS, dir string) error {
	names, err := files.List(dir)
	if err != nil {
		return ignoreMissing(err)
	}
	var marked, formatted, tables, logs bool
	newest, manifests := uint64(0), 0
	for _, name := range names {
		number, isManifest := manifestNumber(name)
		_, _, isLog := wal.ParseLogFilename(name)
		switch {
		case strings.HasPrefix(name, manifestMarker):
			marked = true
		case strings.HasPrefix(name, formatMarker):
			formatted = true
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
			tables = true
		case isLog:
			logs = true
		case isManifest:
			manifests++
			newest = max(newest, number)
		}
	}
	missing := &MissingMarkerError{Dir: dir}
	switch {
	case marked && (formatted || !tables):
		return nil // Pebble marks the format last when it makes a database
	case !marked && !tables && !logs && (manifests == 0 || manifests == 1 && newest <= firstManifest):
		return nil // nothing yet, or the very beginning of a creation that was cut off
	case manifests == 0:
		return missing
	}
	if !marked {
		missing.Create = append(missing.Create, fmt.Sprintf("%s000001.%s%06d", manifestMarker, manifestPrefix, newest))
	}
	if !formatted {
		missing.Create = append(missing.Create, fmt.Sprintf("%s000001.%03d", formatMarker, formatVersion))
	}
	return missing
}

// manifestNumber returns the number in a manifest's name; false for other files.
func manifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, manifestPrefix)
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

// ignoreMissing: a new store has nothing yet, and one in use may change its files just now. Opening will report damage.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
