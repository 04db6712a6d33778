package wire_test

import (
	"errors"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
