package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/collect/crawl/fetch"
	"carillon/eventstore/storetest/assert"
)

const (
	slowSites, quickSites = 20, 200

	slowness = 30 * time.Second
)

// web answers by the names of its hosts: "slow…" after a while, others at once.
type web struct {
	mu               sync.Mutex
	inProgress, most int
	slowAnswers      int
}

func (w *web) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.inProgress++
	w.most = max(w.most, w.inProgress)
	w.mu.Unlock()
	if strings.HasPrefix(r.URL.Host, "slow") {
		<-time.After(slowness) // in synctest time
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inProgress--
	if strings.HasPrefix(r.URL.Host, "slow") {
		w.slowAnswers++
	}
	return &http.Response{
		StatusCode:    http.StatusOK,
		Header:        http.Header{},
		Body:          io.NopCloser(strings.NewReader("x")),
		ContentLength: 1,
	}, nil
}

func (w *web) answersOfSlow() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.slowAnswers
}

// ask requests a page from each of n sites concurrently, and returns how long the last of them took.
func ask(t *testing.T, f *fetch.Fetcher, name string, n int) (done func() time.Duration) {
	t.Helper()
	var asking sync.WaitGroup
	begun, last := time.Now(), make(chan time.Duration, 1)
	for i := range n {
		asking.Go(func() {
			_, err := f.Get(t.Context(), fmt.Sprintf("https://%s%d.example/page", name, i), fetch.Validators{})
			assert.True(t, err == nil, "%v", err)
		})
	}
	go func() {
		asking.Wait()
		last <- time.Since(begun)
	}()
	return func() time.Duration { return <-last }
}

// Sites that take half a minute to answer delay no fast ones, whether they are few and unknown, or many and known as
// slow.
func TestSlowSitesDelayNoOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &web{}
		f := newFetcher(t, fetch.Options{Transport: w, Timeout: 2 * slowness})
		for _, slow := range []int{slowSites, 10 * slowSites, 10 * slowSites} {
			if slow > slowSites {
				ask(t, f, "slow", slow)() // now they are known
			}
			before := w.answersOfSlow()
			slows := ask(t, f, "slow", slow)
			synctest.Wait()
			if took := ask(t, f, "quick", quickSites)(); took != 0 || w.answersOfSlow() > before {
				t.Errorf("beside %d slow sites the others took %s, and %d slow answers", slow, took, w.answersOfSlow()-before)
			}
			if took := slows(); took < slowness {
				t.Errorf("slow sites took %s", took)
			}
		}
		assert.True(t, w.most <= 64, "%d requests at one time", w.most)
	})
}

func TestMaxRequestsInFlight(t *testing.T) {
	t.Parallel()
	for parallel := 1; parallel <= 5; parallel++ {
		synctest.Test(t, func(t *testing.T) {
			w := &web{}
			f := newFetcher(t, fetch.Options{Transport: w, Timeout: 2 * slowness, Parallel: parallel})
			ask(t, f, "quick", quickSites)()
			slow := ask(t, f, "slow", slowSites)
			ask(t, f, "quick", quickSites)()
			slow()
			assert.True(t, w.most <= parallel, "%d requests at one time, want %d", w.most, parallel)
		})
	}
}

// Waiting for a host's pace or pause takes no slot.
func TestWaitingTakesNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFetcher(t, fetch.Options{Transport: &web{}, Parallel: 1, Interval: time.Minute})
		get := func(host string) {
			_, err := f.Get(t.Context(), "https://"+host+"/page", fetch.Validators{})
			assert.True(t, err == nil, "%v", err)
		}
		begun := time.Now()
		get("a.example")
		var waiting sync.WaitGroup
		for range 3 {
			waiting.Go(func() { get("a.example") })
		}
		synctest.Wait()
		if get("b.example"); time.Since(begun) != 0 {
			t.Errorf("another site waited for %s", time.Since(begun))
		}
		if waiting.Wait(); time.Since(begun) != 3*time.Minute {
			t.Errorf("the pace: %s", time.Since(begun))
		}
	})
}

// A cancelled request returns its slot and bytes.
func TestCancelReturnsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFetcher(t, fetch.Options{Transport: &web{}, Parallel: 2, Timeout: 2 * slowness})
		slow := ask(t, f, "slow", 2)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 10 {
			assert.True(t, assert.Err(f.Get(ctx, "https://slow9.example/page", fetch.Validators{})) != nil, "there was a slot")
		}
		slow()
		assert.Equal(t, ask(t, f, "quick", 2)(), 0, "slots are lost")
	})
}

// large answers with slow bodies of a size, and counts the bytes in flight.
type large struct {
	size int

	mu               sync.Mutex
	inProgress, most int
}

func (l *large) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{
		StatusCode:    http.StatusOK,
		Header:        http.Header{},
		Body:          http.NoBody,
		ContentLength: -1,
	}
	if r.URL.Path != "/robots.txt" {
		answer.Body = &largeBody{l, l.size}
	}
	return answer, nil
}

type largeBody struct {
	*large

	left int
}

func (b *largeBody) Read(p []byte) (int, error) {
	<-time.After(time.Second / 10) // in synctest time
	n := min(len(p), b.left, 32<<10)
	if n == 0 {
		return 0, io.EOF
	}
	b.left -= n
	b.count(n)
	return n, nil
}

func (*largeBody) Close() error { return nil }

func (l *large) count(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inProgress += n
	l.most = max(l.most, l.inProgress)
}

// Large bodies wait for each other before they fill the memory. All arrive, and none counts as slow because of that.
func TestMaxBytesInFlight(t *testing.T) {
	t.Parallel()
	const parallel, most = 16, 6 << 20
	synctest.Test(t, func(t *testing.T) {
		l := &large{size: 5 << 20}
		f := newFetcher(t, fetch.Options{Transport: l, Parallel: parallel, MaxBytes: most})
		var reading sync.WaitGroup
		for i := range 40 {
			reading.Go(func() {
				page, err := f.Do(t.Context(), fetch.Ask{URL: fmt.Sprintf("https://%d.example/page", i),
					Use: func(page *fetch.Page) {
						<-time.After(5 * time.Second) // in synctest time
						if l.count(-len(page.Body)); len(page.Body) != l.size {
							t.Errorf("%d bytes", len(page.Body))
						}
					}})
				assert.True(t, err == nil && len(page.Body) == 0, "%d bytes are still there: %v", len(page.Body), err)
			})
		}
		reading.Wait()
		bound := parallel<<20 + most + parallel*256<<10
		assert.True(t, l.most <= bound && l.most >= l.size, "%d bytes at one time, want at most %d", l.most, bound)
		assert.Equal(t, l.inProgress, 0, "bytes are left")
	})
}

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
				now := using.Add(1)
				assert.True(t, now <= most, "%d pages are used at one time, want %d", now, most)
				assert.Equal(t, string(page.Body), "x", "body %q", page.Body)
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
				assert.OK(t, get(t.Context(), i))
			})
			left.Go(func() {
				assert.Is(t, get(leaving, pages+i), errGone, "who gave up")
			})
		}
		synctest.Wait()
		leave(errGone)
		left.Wait()
		assert.Equal(t, used.Load(), 0, "pages were used although there was no room")
		close(room)
		asking.Wait()
		assert.Equal(t, used.Load(), pages, "pages were used")
	})
}
