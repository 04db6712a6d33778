package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/front"
)

// Requests that net/http would refuse in a line of text are answered like others: without a key, with 401.
func TestHostileRequestsHaveTheEnvelope(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(ctx, listener, s.api, s.api.TooLarge(), nil, s.Log) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	large := "X-Large: " + strings.Repeat("x", 128<<10) + "\r\n"
	many := strings.Repeat("X-Small: "+strings.Repeat("x", 1000)+"\r\n", 128)
	for _, test := range []struct {
		name, target, header string
		status               int
		code                 string
	}{
		{"a stray percent sign", "/events/destinations/%zz", "", 400, "INVALID_PARAMS"},
		{"one at the end", "/feeds/a%", "", 404, "NOT_FOUND"},
		{"a truncated escape", "/events/%2", "", 404, "NOT_FOUND"},
		{"a large header", "/events/destinations", large, 400, "INVALID_PARAMS"},
		{"many headers", "/feeds", many, 400, "BAD_REQUEST"},
		{"a long path", "/events/" + strings.Repeat("x", 128<<10), "", 400, "INVALID_PARAMS"},
		{"a long query", "/feeds?" + strings.Repeat("x", 128<<10), "", 400, "BAD_REQUEST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			unauthenticated := "AUTHENTICATION_FAILED"
			if strings.HasPrefix(test.target, "/feeds") {
				unauthenticated = "UNAUTHORIZED"
			}
			for _, key := range []string{"", "Authorization: Bearer ck_wrong\r\n", "Authorization: Bearer " + s.key + "\r\n"} {
				status, code := 401, unauthenticated
				if strings.Contains(key, s.key) {
					status, code = test.status, test.code
				}
				for _, header := range []string{test.header + key, key + test.header} {
					sent := "GET " + test.target + " HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n"
					exchange(t, listener.Addr(), sent).refused(t, status, code, "")
				}
			}
		})
	}
}

// exchange sends a request unchanged.
func exchange(t *testing.T, to net.Addr, sent string) response {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, sent); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return response{status: answer.StatusCode, header: answer.Header, body: string(body)}
}
