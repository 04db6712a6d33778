package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// killedStore is the directory of a store whose process was killed, after its logs had been written over many times.
// It has small memory tables, and 1+2i events of 200 bytes in the append number i.
func killedStore(t *testing.T, appends int) (dir string, events int) {
	t.Helper()
	origin := t.TempDir()
	s := must.Get(Open(Options{Dir: origin, MemTableBytes: 64 << 10}))(t)
	for i := range appends {
		n := 1 + i%3
		mustAppend(t, s, fmt.Sprintf("s-%d", i%7), n)
		events += n
	}
	dir = copyOf(t, origin)
	must.OK(t, s.Close())
	return dir, events
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	for name, content := range filesOf(t, dir) {
		must.OK(t, os.WriteFile(filepath.Join(to, name), content, 0o600))
	}
	return to
}

func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed meanwhile
		}
		must.OK(t, err)
		files[entry.Name()] = content
	}
	return files
}

func sameFiles(a, b map[string][]byte) bool {
	return maps.EqualFunc(a, b, bytes.Equal)
}

// logOf is a log as Pebble reads it.
type logOf struct {
	path    string
	content []byte
	batches []int64 // their offsets
	end     int64   // of the last one
}

// newestLog returns the log that a store would read last.
func newestLog(t *testing.T, dir string) (log logOf) {
	t.Helper()
	logs, err := wal.Scan(wal.Dir{FS: vfs.Default, Dirname: dir})
	must.True(t, err == nil && len(logs) != 0, "%v %v", logs, err)
	_, log.path = logs[len(logs)-1].SegmentLocation(0)
	log.content = must.Get(os.ReadFile(log.path))(t)
	reader := logs[len(logs)-1].OpenForRead()
	defer func() { _ = reader.Close() }()
	for {
		_, at, err := reader.NextRecord()
		if log.end = at.Physical; err != nil {
			return log
		}
		log.batches = append(log.batches, at.Physical)
	}
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	must.OK(t, s.Close())
}

func TestEachFlippedBitOfTheNewestLogIsTold(t *testing.T) {
	t.Parallel()
	var (
		dir    string
		events int
		newest logOf
	)
	must.Eventually(t, "a log was written over an older one", func() bool { // which may be in use for longer under load
		dir, events = killedStore(t, 800)
		newest = newestLog(t, dir)
		return len(newest.batches) >= 5 && int(newest.end) < len(newest.content)
	})
	s := must.Get(Open(Options{Dir: copyOf(t, dir)}))(t)
	must.Equal(t, countAll(t, s), events, "events")
	mustClose(t, s)
	path, intact, end := newest.path, newest.content, int(newest.end)
	source := rand.New(rand.NewPCG(13, 40))
	for i := range 40 {
		at, bit := source.IntN(end), source.IntN(8)
		switch i { // the ends are the hardest
		case 0:
			at = end - 1
		case 1:
			at = 7 // the number of the log
		}
		damaged := bytes.Clone(intact)
		damaged[at] ^= 1 << bit
		here := copyOf(t, dir)
		must.OK(t, os.WriteFile(filepath.Join(here, filepath.Base(path)), damaged, 0o600))
		before := filesOf(t, here)
		s, err := Open(Options{Dir: here})
		if err == nil {
			t.Errorf("bit %d of byte %d of %d is flipped, and %d of %d events open", bit, at, end, countAll(t, s), events)
			mustClose(t, s)
			continue
		}
		var damage *DamagedError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), "--accept-loss") {
			t.Errorf("bit %d of byte %d: %v", bit, at, err)
			continue
		}
		must.True(t, sameFiles(before, filesOf(t, here)), "a refused opening has changed files")
		if i%8 == 0 {
			repaired(t, here, events)
		}
	}
}

// repaired repairs a damaged store, and checks that it then lacks what it lists.
func repaired(t *testing.T, dir string, events int) {
	t.Helper()
	before := filesOf(t, dir)
	listed, err := Repair(Options{Dir: dir}, false)
	must.True(t, err == nil && listed.Damage != nil && listed.Kept == "" && sameFiles(before, filesOf(t, dir)),
		"listing: %+v, %v", listed, err)
	done, err := Repair(Options{Dir: dir}, true)
	must.True(t, err == nil && done.Damage != nil, "repairing: %+v, %v", done, err)
	lost := 0
	s := must.Get(Open(Options{Dir: dir}))(t)
	for _, l := range done.Damage.Lost {
		lost += int(l.Last-l.First) + 1 //nolint:gosec // small
		h, err := loadHead(s.db, l.Stream)
		assert.True(t, err == nil && h.last < int64(l.First), "%v is lost, the stream ends at %d, %v", l, h.last, err)
	}
	if n := countAll(t, s); n+lost > events || n+lost < events && !done.Damage.Unnamed {
		t.Errorf("%d events are left of %d, %d are reported lost: %v", n, events, lost, done.Damage)
	}
	if report, err := s.Verify(t.Context(), nil); err != nil || report.Faults > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	mustAppend(t, s, "s-0", 1)
	mustClose(t, s)
	if again, err := Repair(Options{Dir: dir}, true); err != nil || again.Damage != nil {
		t.Errorf("repairing a sound store: %+v, %v", again, err)
	}
	if kept, err := os.ReadDir(done.Kept); done.Kept != "" && (err != nil || len(kept) == 0) {
		t.Errorf("the damaged logs are not kept: %v, %v", kept, err)
	}
}

func TestLogShorterThanAcknowledged(t *testing.T) {
	t.Parallel()
	dir, events := killedStore(t, 800)
	newest := newestLog(t, dir)
	path, intact := newest.path, newest.content
	lengths := map[string]int64{
		"without the last byte": newest.end - 1, "without the last append": newest.batches[len(newest.batches)-1],
		"removed": -1,
	}
	for i := range int64(20) {
		lengths[fmt.Sprintf("%d of 20 parts", i)] = newest.end * i / 20
	}
	for name, length := range lengths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			here := copyOf(t, dir)
			log := filepath.Join(here, filepath.Base(path))
			var err error
			if length < 0 {
				err = os.Remove(log)
			} else {
				err = os.WriteFile(log, intact[:length], 0o600)
			}
			must.OK(t, err)
			before := filesOf(t, here)
			var damage *DamagedError
			if _, err := Open(Options{Dir: here}); !errors.As(err, &damage) || damage.Acknowledged <= damage.Last {
				t.Fatalf("it opens: %v", err)
			}
			assert.True(t, sameFiles(before, filesOf(t, here)), "a refused opening has changed files")
			if length < 0 || length%4 == 0 {
				repaired(t, here, events)
			}
		})
	}
}

// A log that is followed by others can't be left out: their events would follow a gap.
func TestDamageOfOlderLogIsReported(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	var tables atomic.Int32
	origin := t.TempDir()
	s, err := Open(Options{Dir: origin, MemTableBytes: 64 << 10, FS: watched{vfs.Default, func(name string) {
		if strings.HasSuffix(name, ".sst") {
			tables.Add(1)
			<-held // so that logs are not emptied into tables
		}
	}}})
	must.OK(t, err)
	events := 0
	for tables.Load() == 0 || events%100 > 0 {
		mustAppend(t, s, fmt.Sprintf("s-%d", events%7), 1)
		events++
	}
	dir := copyOf(t, origin)
	close(held)
	mustClose(t, s)
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	must.True(t, err == nil && len(logs) >= 2, "%v %v", logs, err)
	older := logs[len(logs)-2]
	content := must.Get(os.ReadFile(older))(t)
	source := rand.New(rand.NewPCG(3, 20))
	for i := range 20 {
		here := copyOf(t, dir)
		damaged := bytes.Clone(content)
		if i == 0 {
			damaged = nil
		} else {
			damaged[source.IntN(len(content)/2)] ^= 1 << source.IntN(8)
		}
		must.OK(t, os.WriteFile(filepath.Join(here, filepath.Base(older)), damaged, 0o600))
		before := filesOf(t, here)
		var damage *DamagedError
		if _, err := Open(Options{Dir: here}); !errors.As(err, &damage) || !sameFiles(before, filesOf(t, here)) {
			t.Errorf("damage %d: %v", i, err)
		} else if i%5 == 0 {
			repaired(t, here, events)
		}
	}
}

// Unacknowledged events may be cut off anywhere, or be there in parts after a loss of power.
func TestTornTailOpens(t *testing.T) {
	t.Parallel()
	dir, events := killedStore(t, 800)
	newest := newestLog(t, dir)
	path, intact, end := newest.path, newest.content, newest.end
	last := intact[newest.batches[len(newest.batches)-1]:end]
	torn := append(bytes.Clone(intact[:end]), last[:len(last)-1]...)
	damaged := append(bytes.Clone(intact[:end]), last...)
	damaged[len(damaged)-2] ^= 4
	later := append(bytes.Clone(torn), make([]byte, 40_000)...)
	for name, content := range map[string][]byte{"cut off": torn, "damaged": damaged, "followed by nothing": later} {
		here := copyOf(t, dir)
		must.OK(t, os.WriteFile(filepath.Join(here, filepath.Base(path)), content, 0o600))
		s, err := Open(Options{Dir: here})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		assert.Equal(t, countAll(t, s), events, "%s … events", name)
		mustClose(t, s)
	}
}

// A store of an earlier version has no file that says what was acknowledged, and opens.
func TestOpenWithoutAcknowledgedPosition(t *testing.T) {
	t.Parallel()
	dir, events := killedStore(t, 300)
	must.OK(t, os.Remove(filepath.Join(dir, acknowledgedFile)))
	s := must.Get(Open(Options{Dir: dir}))(t)
	assert.Equal(t, countAll(t, s), events, "events")
	mustClose(t, s)
	_, known, err := readAcknowledgement(s.options.FS, dir)
	assert.True(t, err == nil && known, "it has the file now: %v, %v", known, err)
}

func TestDirectoryWithoutMarkersIsRefused(t *testing.T) {
	t.Parallel()
	killed, events := killedStore(t, 300)
	closed := copyOf(t, killed)
	s := must.Get(Open(Options{Dir: closed}))(t)
	mustClose(t, s)
	for name, origin := range map[string]string{"killed": killed, "closed": closed} {
		for _, lost := range []string{"marker.manifest.*", "marker.*"} {
			t.Run(name+" "+lost, func(t *testing.T) {
				t.Parallel()
				dir := copyOf(t, origin)
				marks, err := filepath.Glob(filepath.Join(dir, lost))
				must.True(t, err == nil && len(marks) != 0, "%v %v", marks, err)
				for _, mark := range marks {
					must.OK(t, os.Remove(mark))
				}
				before := filesOf(t, dir)
				var missing *MissingMarkerError
				if _, err := Open(Options{Dir: dir}); !errors.As(err, &missing) ||
					!strings.Contains(err.Error(), "touch marker.manifest.") {
					t.Fatalf("it opens: %v", err)
				}
				must.True(t, sameFiles(before, filesOf(t, dir)), "files were touched")
				for _, name := range missing.Create { // as the message says
					must.OK(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
				}
				s := must.Get(Open(Options{Dir: dir}))(t)
				assert.Equal(t, countAll(t, s), events, "events")
				mustClose(t, s)
			})
		}
	}
	for _, file := range []string{"000007.log", "000005.sst", "MANIFEST-000006"} {
		dir := t.TempDir()
		must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte("x"), 0o600))
		var missing *MissingMarkerError
		_, err := Open(Options{Dir: dir})
		assert.True(t, errors.As(err, &missing), "a directory with %s: %v", file, err)
		files := filesOf(t, dir)
		assert.True(t, len(files) == 1 && string(files[file]) == "x", "files were touched: %v", files)
	}
}

func TestTruncatedManifestSaysWhatToDo(t *testing.T) {
	t.Parallel()
	killed, _ := killedStore(t, 300)
	about, err := pebble.Peek(killed, Options{}.withDefaults().FS)
	must.OK(t, err)
	manifest := filepath.Base(about.ManifestFilename)
	intact := filesOf(t, killed)[manifest]
	for length := -1; length < len(intact); length += 1 + len(intact)/50 {
		dir := copyOf(t, killed)
		path := filepath.Join(dir, manifest)
		if length < 0 {
			err = os.Remove(path)
		} else {
			err = os.Truncate(path, int64(length))
		}
		must.OK(t, err)
		before := filesOf(t, dir)
		if _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrCorrupt) ||
			!strings.Contains(err.Error(), "restore a backup") {
			t.Errorf("cut off at %d of %d: %v", length, len(intact), err)
		}
		must.True(t, sameFiles(before, filesOf(t, dir)), "files were touched")
	}
}

func TestDamagedTableSaysWhatToDo(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	for range 2 { // the second time what the first one wrote is in a table
		s := must.Get(Open(Options{Dir: whole}))(t)
		mustAppend(t, s, "s", 10)
		mustClose(t, s)
	}
	zeros := func(path string) error {
		return os.WriteFile(path, make([]byte, must.Get(os.Stat(path))(t).Size()), 0o600)
	}
	for name, damage := range map[string]func(string) error{"missing": os.Remove, "zeros": zeros} {
		dir := copyOf(t, whole)
		for _, table := range must.Get(filepath.Glob(filepath.Join(dir, "*.sst")))(t) {
			must.OK(t, damage(table))
		}
		_, err := Open(Options{Dir: dir})
		assert.True(t, errors.Is(err, ErrCorrupt) && strings.Contains(err.Error(), "restore a backup") &&
			strings.Contains(err.Error(), dir), "%s: %v", name, err)
	}
}

// A backup says what it holds, too.
func TestTruncatedBackupIsReported(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(Options{Dir: t.TempDir()}))(t)
	mustAppend(t, s, "s", 100)
	dir := filepath.Join(t.TempDir(), "backup")
	must.OK(t, s.Backup(t.Context(), dir))
	mustClose(t, s)
	newest := newestLog(t, dir)
	must.OK(t, os.Truncate(newest.path, newest.end/2))
	var damage *DamagedError
	_, err := Open(Options{Dir: dir, ReadOnly: true, MustExist: true})
	assert.True(t, errors.As(err, &damage), "it opens: %v", err)
}
