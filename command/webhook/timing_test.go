package webhook

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipeSender talks to an endpoint over an in-memory connection, so that a synctest clock sees that all wait.
func pipeSender(t *testing.T, opts Options, serve func(net.Conn, *http.Request)) *Sender {
	t.Helper()
	var served sync.WaitGroup
	transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		served.Go(func() {
			defer func() { _ = far.Close() }()
			reader := bufio.NewReader(far)
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			serve(far, request)
			_, _ = io.Copy(io.Discard, reader) // until the other end hangs up
		})
		return near, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		served.Wait()
	})
	return NewSender(transport, opts)
}

func silence(net.Conn, *http.Request) {}

func TestSendTimesOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opts    Options
		want    time.Duration
		message string
	}{
		{Options{}, 30 * time.Second, "timeout: no answer within 30s"},
		{Options{Timeout: 90 * time.Second}, 90 * time.Second, "timeout: no answer within 1m30s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sender := pipeSender(t, test.opts, silence)
			result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
			want := Result{FailureReason: "timeout", ErrorMessage: test.message, Duration: test.want}
			if result != want {
				t.Errorf("got %+v", result)
			}
		})
	}
}

func TestSendAborts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, silence)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		result := sender.Send(ctx, requestTo(t, "https://example.com/"))
		if !result.Aborted || result.OK() || result.Duration != 3*time.Second {
			t.Errorf("got %+v", result)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, silence)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		result := sender.Send(ctx, requestTo(t, "https://example.com/"))
		if result.Aborted || result.FailureReason != "timeout" || result.Duration != 2*time.Second {
			t.Errorf("a caller's deadline is a timeout: %+v", result)
		}
	})
}

// The status decides; a body that drips is cut short.
func TestSendDoesNotWaitForDrippingBodies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		delay, want time.Duration // until the status line; until the result
	}{{0, 5 * time.Second}, {28 * time.Second, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
				<-time.After(test.delay)
				_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\n")
				for range 1000 {
					if _, err := io.WriteString(conn, "x"); err != nil {
						return
					}
					<-time.After(1100 * time.Millisecond)
				}
			})
			result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
			if !result.OK() || result.StatusCode != 202 || result.Duration != test.want || result.Body == "" ||
				len(result.Body) > 5 {
				t.Errorf("got %+v", result)
			}
		})
	}
}

func TestRetryAfterDateCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
			<-time.After(10 * time.Second)
			_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: Sat, 21 Nov 2026 12:01:00 GMT\r\n"+
				"Content-Length: 0\r\n\r\n")
		})
		result := sender.Send(t.Context(), Request{
			URL:     "https://example.com/",
			Secrets: []Secret{mint(t)},
			ID:      "d",
			Body:    []byte("{}"),
			Now:     now,
		})
		if result.RetryAfter != 50*time.Second {
			t.Errorf("got %+v", result)
		}
	})
}

func TestSwitchingProtocolsIsNoAnswerToWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		})
		result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
		if result.FailureReason != "http_status" || result.StatusCode != 101 || result.Duration != 0 {
			t.Errorf("got %+v", result)
		}
	})
}

func TestProbeTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := pipeSender(t, Options{}, silence).Probe(t.Context(), nil, "https://example.com/")
		want := Reachability{
			ResponseTime:  5 * time.Second,
			FailureReason: "timeout",
			ErrorMessage:  "timeout: no answer within 5s",
		}
		if got != want {
			t.Errorf("got %+v", got)
		}
	})
}
