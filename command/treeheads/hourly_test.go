package treeheads_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// shared is a log that several processes use, and that can't be reached while it is down.
type shared struct {
	mu   sync.Mutex
	log  log
	down bool
}

func (s *shared) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Append(ctx, stream, expected, events)
}

// copy returns the log of this moment.
func (s *shared) copy() *log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.clone()
}

func (s *shared) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	return s.copy().Read(ctx, stream, from)
}

func (s *shared) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return s.copy().Subscribe(ctx, after, filter)
}

func (s *shared) Head(ctx context.Context) (eventstore.Position, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return eventstore.Start, eventstore.ErrUnavailable
	}
	return s.log.Head(ctx)
}

func (s *shared) add(t *testing.T, count int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.add(t, count)
}

func (s *shared) reach(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = !is
}

// lock is the lock of the process that seals.
func lock() func(context.Context) (func(), error) {
	var one sync.Mutex
	return func(context.Context) (func(), error) {
		if !one.TryLock() {
			return nil, treeheads.ErrSealing
		}
		return one.Unlock, nil
	}
}

func hourly(store eventstore.Store, lock func(context.Context) (func(), error)) *treeheads.Hourly {
	return &treeheads.Hourly{
		Sealer:  &treeheads.Sealer{Store: store, Key: own, Now: time.Now},
		Lock:    lock,
		Log:     slog.New(slog.DiscardHandler),
		Started: time.Now(),
	}
}

// pass lets time pass, and waits until all that becomes due in it is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Of several processes one seals each hour. While nothing is new they sign no head, and the log is not overdue.
func TestHourlyInOneProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, held := &shared{}, lock()
		var all []*treeheads.Hourly
		for range 3 {
			h := hourly(l, held)
			all = append(all, h)
			go func() { _ = h.Run(t.Context()) }()
			pass(7 * time.Minute)
		}
		for range 12 {
			l.add(t, 5)
			pass(30 * time.Minute)
		}
		report := verify(t, l.copy(), nil)
		assert.True(t, report.OK() && report.Heads >= 6 && report.Heads <= 7, "in 6 hours: %+v", report)
		pass(10 * time.Hour)
		idle := verify(t, l.copy(), nil)
		assert.True(t, idle.Heads <= report.Heads+1, "without news: %d heads", idle.Heads-report.Heads)
		for _, h := range all {
			if age, last := h.Age(t.Context()); age > time.Hour || last == nil || len(h.Warnings()) > 0 {
				t.Errorf("age %s of %+v, %q", age, last, h.Warnings())
			}
		}
	})
}

// Processes that want an event to be covered at once seal it, whoever of them does, and sign no head if it is.
func TestCoverSealsEvent(t *testing.T) {
	t.Parallel()
	l := &shared{}
	all := []*treeheads.Hourly{hourly(l, lock()), hourly(l, lock())}
	for range 20 {
		l.add(t, 3)
		at, err := l.Head(t.Context())
		var covering sync.WaitGroup
		for _, h := range all {
			covering.Go(func() {
				assert.OK(t, h.Cover(t.Context(), at))
			})
		}
		covering.Wait()
		report := verify(t, l.copy(), nil)
		err = errors.Join(err, all[0].Cover(t.Context(), at))
		must.True(t, err == nil && report.OK() && report.Unsealed <= 1, "%+v, %v", report, err)
		if again := verify(t, l.copy(), nil); again.Heads != report.Heads {
			t.Errorf("%d heads, %d after a second time", report.Heads, again.Heads)
		}
	}
	l.reach(false)
	l.add(t, 1)
	assert.Is(t, all[0].Cover(t.Context(), l.log[len(l.log)-1].Position), eventstore.ErrUnavailable,
		"without the event store")
}

// A process that starts seals a minute later if the last head is old, and at its time else.
func TestHourlyAfterStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &shared{}
		l.add(t, 5)
		must.Get(hourly(l, lock()).Seal(t.Context(), by))(t)
		heads := func() uint64 { return verify(t, l.copy(), nil).Heads }
		l.add(t, 5)
		pass(50 * time.Minute)
		first, stop := context.WithCancel(t.Context())
		go func() { _ = hourly(l, lock()).Run(first) }()
		if pass(9 * time.Minute); heads() != 1 {
			t.Error("sealed too early")
		}
		if pass(2 * time.Minute); heads() != 2 {
			t.Error("not sealed in time")
		}
		stop()
		l.add(t, 5)
		pass(5 * time.Hour)
		go func() { _ = hourly(l, lock()).Run(t.Context()) }()
		if pass(2 * time.Minute); heads() != 3 {
			t.Error("not sealed a minute after the start")
		}
	})
}

// A seal that fails is tried again within 10 minutes, and a warning until it succeeds, or another process has sealed.
func TestHourlyRetries(t *testing.T) {
	t.Parallel()
	for name, elsewhere := range map[string]bool{"by itself": false, "by another process": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &shared{down: true}
				l.add(t, 5)
				h := hourly(l, lock())
				go func() { _ = h.Run(t.Context()) }()
				pass(3 * time.Hour)
				age, last := h.Age(t.Context())
				got := h.Warnings()
				assert.True(t, len(got) == 1 && strings.HasPrefix(got[0], "log could not be sealed") && age == 3*time.Hour &&
					last == nil, "%q, age %s of %+v", got, age, last)
				if l.reach(true); elsewhere {
					must.Get(hourly(l, lock()).Seal(t.Context(), by))(t)
				}
				pass(10 * time.Minute)
				if age, last = h.Age(t.Context()); len(h.Warnings()) > 0 || last == nil || age > 10*time.Minute {
					t.Errorf("%q, age %s of %+v", h.Warnings(), age, last)
				}
			})
		})
	}
}

// answers is a server elsewhere, which hangs while it has no status.
type answers struct {
	status atomic.Int64
	mu     sync.Mutex
	heads  []seal.Head
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status := int(a.status.Load())
	switch status {
	case 0:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case http.StatusOK:
		heads, err := seal.ReadHeads(r.Body)
		if err != nil {
			return nil, err
		}
		a.mu.Lock()
		a.heads = append(a.heads, heads...)
		a.mu.Unlock()
	}
	return &http.Response{StatusCode: status, Body: http.NoBody}, nil
}

func (a *answers) kept() []seal.Head {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.heads)
}

// A place elsewhere that hangs or refuses holds no seal back. All heads are there once it answers.
func TestOutboxOutage(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"hangs": 0, "500": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, server := &shared{}, &answers{}
				server.status.Store(int64(status))
				h := hourly(l, lock())
				h.Outbox = treeheads.NewOutbox(&treeheads.Target{To: "https://other/hunter2", Transport: server}, h.Log)
				go func() { _ = h.Run(t.Context()) }()
				go func() { _ = h.Outbox.Run(t.Context()) }()
				pass(0)
				for range 3 {
					l.add(t, 5)
					before := time.Now()
					_, err := h.Seal(t.Context(), by)
					assert.True(t, err == nil && time.Since(before) <= 0, "sealed after %s, %v", time.Since(before), err)
					pass(time.Minute)
				}
				waiting, err := h.Outbox.Waiting()
				got := strings.Join(h.Warnings(), "")
				assert.True(t, waiting == 3 && err != nil && strings.Contains(got, "(CARILLON_SEAL_TO): 3: ") &&
					!strings.Contains(got, "hunter2"), "%d wait, %v: %q", waiting, err, got)
				server.status.Store(http.StatusOK)
				pass(11 * time.Minute)
				if report := verify(t, l.copy(), server.kept()); !report.OK() || report.Elsewhere != 3 || len(h.Warnings()) > 0 {
					t.Errorf("%+v, %q", report, h.Warnings())
				}
			})
		})
	}
}

// The newest head is sent once more by a process that starts. Of those that wait for long, the newest are kept.
func TestOutboxAfterStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, heads := sealed(t)
		server := &answers{}
		h := hourly(l, func(context.Context) (func(), error) { return nil, errors.New("none") })
		h.Outbox = treeheads.NewOutbox(&treeheads.Target{To: "https://other", Transport: server}, h.Log)
		for range 400 {
			h.Outbox.Add(heads...)
		}
		go func() { _ = h.Run(t.Context()) }()
		pass(0)
		server.status.Store(http.StatusOK)
		go func() { _ = h.Outbox.Run(t.Context()) }()
		pass(time.Second)
		kept := server.kept()
		n := len(kept)
		assert.True(t, n == 1000 && kept[n-1].Size == heads[3].Size && kept[n-2].Size == heads[3].Size, "%d heads", n)
	})
}

// Heads in a file elsewhere are what a verification takes.
func TestTargetFile(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	path := filepath.Join(t.TempDir(), "heads")
	target := &treeheads.Target{To: path}
	for i := range heads {
		must.OK(t, target.Send(t.Context(), &heads[i]))
	}
	text := must.Get(os.ReadFile(path))(t)
	kept := must.Get(seal.ReadHeads(bytes.NewReader(text)))(t)
	must.Equal(t, len(kept), 4, "heads")
	report := verify(t, l, kept)
	assert.True(t, report.OK() && report.Elsewhere == 4, "%+v", report)
}

// An address gets each head as a POST. Redirects are not followed, and errors don't name the address.
func TestTargetAddress(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	status, got := http.StatusNoContent, []seal.Head(nil)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		more, err := seal.ReadHeads(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s, %v", r.Method, err)
		}
		got = append(got, more...)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	target := &treeheads.Target{To: server.URL + "/hunter2", Transport: server.Client().Transport}
	must.OK(t, target.Send(t.Context(), &heads[1]))
	assert.True(t, len(got) == 1 && slices.Equal(got[0].Root, heads[1].Root), "got %+v", got)
	for _, status = range []int{http.StatusFound, http.StatusInternalServerError} {
		err := target.Send(t.Context(), &heads[1])
		assert.True(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "status %d: %v", status, err)
	}
	target.To = "https://127.0.0.1:1/hunter2"
	if err := target.Send(t.Context(), &heads[1]); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("without a server: %v", err)
	}
}

// After a write that failed a head has a line of its own, also if a part of the other one was written.
func TestTargetFileAfterFailure(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link"), filepath.Join(dir, "heads")
	must.OK(t, errors.Join(os.Symlink("/dev/full", link), os.WriteFile(path, []byte(`{"size":3,"ro`), 0o600)))
	target := &treeheads.Target{To: link}
	must.True(t, target.Send(t.Context(), &heads[0]) != nil, "written to a full disk")
	must.OK(t, errors.Join(os.Remove(link), os.Symlink(path, link)))
	for i := range heads[:2] {
		must.OK(t, target.Send(t.Context(), &heads[i]))
	}
	text := must.Get(os.ReadFile(path))(t)
	assert.Equal(t, len(must.Get(seal.ReadHeads(bytes.NewReader(text)))(t)), 2, "heads of %q", text)
	assert.True(t, (&treeheads.Target{To: dir}).Send(t.Context(), &heads[0]) != nil, "written to a directory")
}

// A file that does not answer, as on a mount whose server is away, is given up, and not opened twice.
func TestTargetFileHangs(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	path := filepath.Join(t.TempDir(), "pipe") // opening it waits for a reader
	must.OK(t, syscall.Mkfifo(path, 0o600))
	target := &treeheads.Target{To: path}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		assert.True(t, target.Send(ended, &heads[0]) != nil, "written without a reader")
	}
	reader := must.Get(os.Open(path))(t)
	text, err := io.ReadAll(reader) // until the writer has closed it
	kept, failed := seal.ReadHeads(bytes.NewReader(text))
	assert.True(t, len(kept) == 1 && failed == nil, "%d heads of %q, %v, %v", len(kept), text, failed, err)
	must.OK(t, reader.Close())
}
