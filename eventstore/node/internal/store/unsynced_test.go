package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// An unsynced append is answered while nothing reaches the disk, and is durable and seen with the next append, when its
// stream is read, by itself soon afterwards, and when the store is closed.
func TestUnsyncedAppends(t *testing.T) {
	t.Parallel()
	appended := func(t *testing.T, s *Store) Result {
		t.Helper()
		result := must.Get(s.AppendUnsynced(t.Context(), "later", Any(), propose("later", 1, 100)))(t)
		return result
	}
	for name, follows := range map[string]func(*testing.T, *Store){
		"next append": func(t *testing.T, s *Store) { mustAppend(t, s, "s", 1) },
		"read": func(t *testing.T, s *Store) {
			if stream, err := s.Stream(t.Context(), "later"); err != nil || stream.Last() != 0 {
				t.Errorf("last %d, %v", stream.Last(), err)
			}
		},
		"soon": func(_ *testing.T, s *Store) {
			for advanced := s.Advanced(); s.Watermark() < firstPosition; advanced = s.Advanced() {
				<-advanced
			}
		},
		"repeated": func(t *testing.T, s *Store) {
			again := propose("again", 1, 100)
			for _, record := range []func(context.Context, string, Expected, []Proposed) (Result, error){
				s.AppendUnsynced, s.Append,
			} {
				must.Get(record(t.Context(), "again", NoStream(), again))(t)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := newTroubled()
			s := openIn(t, fs)
			must.Equal(t, s.Watermark(), 0, "not empty")
			at := appended(t, s)
			follows(t, s)
			assert.True(t, s.Watermark() >= at.Position, "not durable")
			crashed := openIn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			assert.True(t, countAll(t, crashed) != 0, "lost")
			must.OK(t, crashed.Close())
			before := countAll(t, s)
			appended(t, s)
			must.OK(t, s.Close())
			again := openIn(t, fs)
			assert.Equal(t, countAll(t, again), before+1, "events after closing")
			must.OK(t, again.Close())
		})
	}
	t.Run("not seen before", func(t *testing.T) {
		t.Parallel()
		fs := newTroubled()
		s := openIn(t, fs)
		fs.failSyncs.Store(true)
		appended(t, s)
		<-s.Failed()
		assert.Equal(t, countAll(t, s), 0, "events that are not durable were seen")
	})
}

// A request that comes while what is unsynced is being synced is decided when that ends.
func TestUnsyncedAppend_besideSync(t *testing.T) {
	t.Parallel()
	s := openIn(t, vfs.NewMem())
	ended := make(chan struct{})
	var syncing sync.WaitGroup
	syncing.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
				s.syncRest()
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 5000 {
		must.Get(s.AppendUnsynced(ctx, "s", Any(), propose("s", 1, 10)))(t)
	}
	close(ended)
	syncing.Wait()
	must.OK(t, s.Close())
}

// The position is on the disk a second after an event at the latest, whether or not others follow.
func TestAcknowledgedPositionBecomesDurable(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	position := mustAppend(t, s, "s", 3).Position
	must.Eventually(t, "it is durable", func() bool {
		said, known, err := readAcknowledgement(fs.CrashClone(vfs.CrashCloneCfg{}), "node")
		must.True(t, err == nil && known, "%+v, %v, %v", said, known, err)
		return said.position == position
	})
	mustClose(t, s)
}

// Flushed tables are compacted before writers would have to wait, although nothing polls for them.
func TestCompactionsKeepUpWithoutPolling(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(Options{Dir: t.TempDir(), MemTableBytes: 64 << 10}))(t)
	t.Cleanup(func() {
		must.OK(t, s.Close())
	})
	data := make([]byte, 4<<10)
	for i := range 400 {
		stream := fmt.Sprintf("thing-%d", i)
		event := Propose(EventContent{Stream: stream, Type: "thing.happened", Data: data})
		must.Get(s.Append(t.Context(), stream, Any(), []Proposed{event}))(t)
	}
	must.Eventually(t, "all is compacted", func() bool {
		metrics := s.db.Metrics()
		return metrics.Compact.Count > 0 && metrics.Levels[0].Sublevels < 4 && metrics.Compact.NumInProgress == 0
	})
}

// Heads that were written and have left the cache are found again.
func TestHeadsThatLeftTheCacheAreKnown(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(Options{Dir: "store", FS: vfs.NewMem(), Heads: minHeads}))(t)
	const streams = 5 * minHeads
	begin := func(i int) error {
		stream := fmt.Sprint("thing-", i)
		return assert.Err(s.Append(t.Context(), stream, NoStream(), propose(stream, 1, 2)))
	}
	for i := range streams {
		must.OK(t, begin(i))
	}
	for i := range streams {
		var wrong *WrongRevisionError
		err := begin(i)
		must.True(t, errors.As(err, &wrong) && wrong.Current == 0, "stream %d is begun a second time: %v", i, err)
	}
	mustClose(t, s)
}
