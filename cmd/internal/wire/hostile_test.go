package wire_test

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Thousands of requests without a key don't fill the disk.
func TestHostileRequestsFillNoLog(t *testing.T) {
	t.Parallel()
	surface := func(*http.Request) wire.Surface { return wire.Feeds }
	for path, refusing := range map[string]http.Handler{
		"/feeds/events": wire.RequireTLS(nil, surface)(http.NotFoundHandler()),
		"/":             wire.NothingAtRoot(surface)(http.NotFoundHandler()),
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines strings.Builder
			handler := wire.RequestID(wire.AccessLog(slog.New(slog.NewTextHandler(&lines, nil)),
				func(string, string, int, time.Duration) {})(refusing))
			for range 2 {
				for range 1000 {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
				}
				time.Sleep(time.Second) // of the bubble's clock
				synctest.Wait()
			}
			assert.Equal(t, strings.Count(lines.String(), "msg=request"), 101,
				"%s … lines, want 50 of each second and the last one held back", path)
			assert.True(t, strings.Contains(lines.String(), "leftOut=950"), "%s: omitted lines are not counted", path)
		})
	}
}

// If there is no more room, the newest addresses stay: other addresses clear no limit.
func TestHostileAddressesClearNoLimit(t *testing.T) {
	t.Parallel()
	limiter, now := wire.NewAddressLimiter(1000, 10*time.Second), time.Now()
	guesser := netip.MustParseAddr("192.0.2.1")
	for limiter.Take(guesser, now) {
	}
	for i := range 25_000 { // more than there is room for
		other := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		must.True(t, limiter.Take(other, now), "another address is refused")
		if i%1000 == 0 && limiter.Take(guesser, now) {
			t.Fatalf("after %d others it is let off", i)
		}
	}
	assert.True(t, !limiter.Take(guesser, now), "it is let off")
}

// While the event store is away, refused requests are one line a minute, which says how many they were. Faults of ours
// are a line each: they are looked for by the id of the request.
func TestRequestsOfAnOutageAreALineAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
		defer func() { _ = file.Close() }()
		answer := wire.AccessLog(config.Logging{LogFormat: "text"}.Logger(file), func(string, string, int, time.Duration) {})
		ask := func(failure error) {
			handler := wire.RequestID(answer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				wire.Events.WriteError(w, r, failure)
			})))
			handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut,
				"/events/destinations/"+uuid.NewString(), nil))
		}
		const asked, faults = 500, 3
		for range asked {
			ask(fmt.Errorf("append to destination-%s: %w", uuid.New(), eventstore.ErrUnavailable))
		}
		for range faults {
			ask(errors.New("out of cheese"))
		}
		time.Sleep(3 * time.Minute) //nolint:forbidigo // the clock of the test
		synctest.Wait()
		written := must.Get(os.ReadFile(file.Name()))(t)
		text := string(written)
		if n := strings.Count(text, "status=503"); n != 2 || !strings.Contains(text, fmt.Sprintf("repeated=%d", asked-1)) {
			t.Errorf("%d lines of %d refused requests, want 2:\n%s", n, asked, text)
		}
		assert.Equal(t, strings.Count(text, "status=500"), faults, "lines faults: %s", text)
	})
}

// Each time of each answer is in UTC with six fraction digits, whatever the zone and the digits that it came with.
func TestTimesHaveSixDigits(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 13, 0, 0, 500_000_000, time.FixedZone("", 3600))
	type shown struct {
		At   time.Time  `json:"at"`
		Then *time.Time `json:"then"`
		None *time.Time `json:"none"`
	}
	one := shown{noon, &noon, nil}
	list := iter.Seq2[shown, error](func(yield func(shown, error) bool) { yield(one, nil) })
	const want = `{"at":"2026-11-21T12:00:00.500000Z","then":"2026-11-21T12:00:00.500000Z","none":null}`
	for name, reply := range map[string]wire.Reply{
		"whole":    wire.OK([]shown{one}),
		"streamed": wire.Streamed(list, func(s shown) any { return s }),
	} {
		w := httptest.NewRecorder()
		wire.Events.Handle(func(*http.Request) (wire.Reply, error) { return reply, nil }).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		assert.True(t, strings.Contains(w.Body.String(), want), "%s: %s", name, w.Body)
	}
}

// pipe is a listener that has one connection.
type pipe struct {
	conn   chan net.Conn
	closed chan struct{}
}

func (p *pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.conn:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipe) Close() error   { close(p.closed); return nil }
func (p *pipe) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// A caller that does not read is cut off; one that reads slowly gets all of it.
func TestHostileCallerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, tt := range map[string]struct {
		pause time.Duration // before each 32 KiB
		ended time.Duration // of the handler, at the latest
		whole bool
	}{
		"never reads": {time.Hour, 80 * time.Second, false},
		"slow":        {time.Second, 80 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan time.Duration, 1)
				began := time.Now()
				handler := wire.Pace(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write(make([]byte, size))
					ended <- time.Since(began)
				}))
				listener := &pipe{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
				server := &http.Server{Handler: handler, WriteTimeout: time.Hour, ReadHeaderTimeout: time.Second}
				go func() { _ = server.Serve(listener) }()
				here, there := net.Pipe()
				listener.conn <- there
				must.Get(here.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
				read := make(chan int)
				go func() {
					all, part := 0, make([]byte, 32<<10)
					for {
						time.Sleep(tt.pause)
						n, err := here.Read(part)
						if all += n; err != nil || all >= size {
							read <- all
							return
						}
					}
				}()
				took := <-ended
				assert.True(t, took <= tt.ended, "the handler was held for %s", took)
				assert.Equal(t, <-read >= size, tt.whole, "bytes arrived, want all of %d", size)
				_ = here.Close()
				_ = server.Close()
			})
		})
	}
}

// parts notes how much of an answer is handed over at once.
type parts struct {
	*httptest.ResponseRecorder

	most int
}

func (p *parts) Write(body []byte) (int, error) {
	p.most = max(p.most, len(body))
	return p.ResponseRecorder.Write(body)
}

func list(n int, failure error) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for range n {
			if !yield(strings.Repeat("x", 1000), nil) {
				return
			}
		}
		if failure != nil {
			yield("", failure)
		}
	}
}

func streamed(t *testing.T, n int, failure error) (answer *parts, aborted bool) {
	t.Helper()
	handler := wire.Feeds.Handle(func(*http.Request) (wire.Reply, error) {
		return wire.Streamed(list(n, failure), func(s string) any { return s }), nil
	})
	answer = &parts{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		if thrown := recover(); thrown != nil {
			if err, ok := thrown.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				panic(thrown)
			}
			aborted = true
		}
	}()
	handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	return answer, false
}

func TestHostileListIsNeverWhole(t *testing.T) {
	t.Parallel()
	answer, _ := streamed(t, 10_000, nil)
	want := `{"success":true,"data":[` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("x", 1000)+`",`, 10_000),
		",") + "]}"
	assert.True(t, answer.Code == 200 && answer.Body.String() == want,
		"answered %d with %d bytes, want %d", answer.Code, answer.Body.Len(), len(want))
	assert.True(t, answer.most <= 18<<10, "%d bytes at once", answer.most)
	if answer, _ := streamed(t, 0, nil); answer.Body.String() != `{"success":true,"data":[]}` {
		t.Errorf("no elements: %s", answer.Body)
	}
	if answer, _ := streamed(t, 3, errors.New("broken")); answer.Code != 500 {
		t.Errorf("a list that breaks off at once is answered %d", answer.Code)
	}
	if answer, aborted := streamed(t, 100, errors.New("broken")); !aborted || answer.Code != 200 {
		t.Errorf("a list that breaks off later: aborted %t, status %d", aborted, answer.Code)
	}
}
