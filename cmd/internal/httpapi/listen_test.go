package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/organizations"
)

var streamAddress = "https://listen.invalid/stream/" + strings.Repeat("aB3", 12)

func TestListenRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, url := range map[string]string{
		"sent":   "https://127.0.0.1:1/",
		"stream": streamAddress,
		"short":  "https://listen.invalid/stream/x",
	} {
		body := `{"name":"x","config":{"url":"` + url + `"}}`
		s.do(t, request{method: "PUT", path: destinationsPath + "/" + name, body: body}).into(t, 201, nil)
	}
	for _, tt := range []struct {
		in            request
		status        int
		code, message string
	}{
		{request{method: "GET", path: "/sent/listen"}, 409, "CONFLICT", "https://listen.invalid/stream/ and 32"},
		{request{method: "GET", path: "/short/listen"}, 409, "CONFLICT", "32 or more random"},
		{request{method: "GET", path: "/unknown/listen"}, 404, "NOT_FOUND", ""},
		{request{method: "GET", path: "/stream/listen?x=1"}, 400, "INVALID_QUERY", ""},
		{request{method: "POST", path: "/sent/listen/" + missing, body: `{"status":204}`}, 409, "CONFLICT", ""},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":204}`}, 404, "NOT_FOUND",
			"no webhook waits"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":99}`}, 400, "INVALID_BODY", "status"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{}`}, 400, "INVALID_BODY", "status"},
		{request{method: "POST", path: "/stream/listen/7", body: `{"status":204}`}, 400, "INVALID_PARAMS", "id"},
	} {
		tt.in.path = destinationsPath + tt.in.path
		s.do(t, tt.in).refused(t, tt.status, tt.code, tt.message)
	}
	other := serve(t)
	other.do(t, request{method: "GET", path: destinationsPath + "/stream/listen"}).refused(t, 404, "NOT_FOUND", "")
}

// TestListenEndsWithItsKey revokes the key of a stream that is open.
func TestListenEndsWithItsKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	body := `{"name":"x","config":{"url":"` + streamAddress + `"}}`
	s.do(t, request{method: "PUT", path: destinationsPath + "/stream", body: body}).into(t, 201, nil)
	open := s.listen(t, "stream", s.key)
	by := command.Caller{Actor: "operator", RequestID: uuid.New()}
	_, keyID, _ := strings.Cut(s.key, "_")
	keyID, _, _ = strings.Cut(keyID, "_")
	changed, err := s.Commands.RevokeKey(t.Context(), by, command.RevokeKey{Organization: s.org, KeyID: keyID})
	if err != nil {
		t.Fatal(err)
	}
	s.Progress.Await(t.Context(), changed.Position, organizations.ReadModel.Name)
	if _, data := open.next("webhook"); data != "" {
		t.Errorf("after the end of its key: %s", data)
	}
}

// TestListenBoundsStreams opens as many streams as an organization may have. The next is refused, until one is closed.
func TestListenBoundsStreams(t *testing.T) {
	t.Parallel()
	s, other := serve(t), serve(t)
	const maxStreams = 16
	body := `{"name":"x","config":{"url":"` + streamAddress + `"}}`
	s.do(t, request{method: "PUT", path: destinationsPath + "/stream", body: body}).into(t, 201, nil)
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	open := func() *http.Response {
		url := server.URL + destinationsPath + "/stream/listen"
		in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		in.Header.Set("Authorization", "Bearer "+s.key)
		stream, err := server.Client().Do(in)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = stream.Body.Close() })
		return stream
	}
	var last *http.Response
	for range maxStreams {
		if last = open(); last.StatusCode != http.StatusOK {
			t.Fatalf("refused with %d", last.StatusCode)
		}
	}
	listen := request{path: destinationsPath + "/stream/listen"}
	got := s.do(t, listen)
	got.refused(t, 429, "RATE_LIMITED", "limit streams: 16 streams of your organization are open: close one")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	other.do(t, listen).refused(t, 404, "NOT_FOUND", "") // and is not held back
	_ = last.Body.Close()
	apitest.Eventually(t, "a stream is free", func() bool {
		return open().StatusCode == http.StatusOK //nolint:bodyclose // by a cleanup
	})
}
