package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"carillon/command/collect/crawl/fetch"
)

// Few pages are used concurrently, and each only when there is room for its contents. A cancelled one leaves nothing
// behind.
func TestPagesWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages = 40
		var using, used atomic.Int64
		room := make(chan struct{})
		f := newFetcher(t, fetch.Options{Transport: &web{}, Room: func(ctx context.Context) error {
			select {
			case <-room:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
		most := int64(max(2, runtime.GOMAXPROCS(0)))
		get := func(ctx context.Context, i int) error {
			_, err := f.Do(ctx, fetch.Ask{URL: fmt.Sprintf("https://quick%d.example/page", i), Use: func(page *fetch.Page) {
				if now := using.Add(1); now > most {
					t.Errorf("%d pages are used at one time, want %d", now, most)
				}
				if string(page.Body) != "x" {
					t.Errorf("body %q", page.Body)
				}
				runtime.Gosched()
				using.Add(-1)
				used.Add(1)
			}})
			return err
		}
		errGone := errors.New("gone")
		leaving, leave := context.WithCancelCause(t.Context())
		var asking, left sync.WaitGroup
		for i := range pages {
			asking.Go(func() {
				if err := get(t.Context(), i); err != nil {
					t.Error(err)
				}
			})
			left.Go(func() {
				if err := get(leaving, pages+i); !errors.Is(err, errGone) {
					t.Errorf("who gave up got %v", err)
				}
			})
		}
		synctest.Wait()
		leave(errGone)
		left.Wait()
		if used.Load() != 0 {
			t.Errorf("%d pages were used although there was no room", used.Load())
		}
		close(room)
		asking.Wait()
		if used.Load() != pages {
			t.Errorf("%d pages were used, want %d", used.Load(), pages)
		}
	})
}
