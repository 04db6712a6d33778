package store

import (
	"context"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// An unsynced append is answered while nothing reaches the disk, and is durable and seen with the next append, when its
// stream is read, by itself soon afterwards, and when the store is closed.
func TestUnsyncedAppends(t *testing.T) {
	t.Parallel()
	appended := func(t *testing.T, s *Store) Result {
		t.Helper()
		result, err := s.AppendUnsynced(t.Context(), "later", Any(), propose("later", 1, 100))
		if err != nil {
			t.Fatal(err)
		}
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
				if _, err := record(t.Context(), "again", NoStream(), again); err != nil {
					t.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fs := newTroubled()
			s := openIn(t, fs)
			if s.Watermark() != 0 {
				t.Fatal("not empty")
			}
			at := appended(t, s)
			follows(t, s)
			if s.Watermark() < at.Position {
				t.Error("not durable")
			}
			crashed := openIn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			if n := countAll(t, crashed); n == 0 {
				t.Error("lost")
			}
			if err := crashed.Close(); err != nil {
				t.Error(err)
			}
			before := countAll(t, s)
			appended(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := openIn(t, fs)
			if n := countAll(t, again); n != before+1 {
				t.Errorf("%d events after closing, want %d", n, before+1)
			}
			if err := again.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("not seen before", func(t *testing.T) {
		t.Parallel()
		fs := newTroubled()
		s := openIn(t, fs)
		fs.failSyncs.Store(true)
		appended(t, s)
		<-s.Failed()
		if n := countAll(t, s); n != 0 {
			t.Errorf("%d events that are not durable were seen", n)
		}
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
		if _, err := s.AppendUnsynced(ctx, "s", Any(), propose("s", 1, 10)); err != nil {
			t.Fatal(err)
		}
	}
	close(ended)
	syncing.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
