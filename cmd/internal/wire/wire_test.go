package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/query"
)

// serve answers one request with a handler behind the middleware, and returns the answer and the log.
func serve(
	t *testing.T, surface wire.Surface, method string, handler wire.Handler,
) (*httptest.ResponseRecorder, string) {
	t.Helper()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	surfaceOf := func(*http.Request) wire.Surface { return surface }
	var observed []string
	r := chi.NewRouter()
	r.Use(wire.RequestID, wire.AccessLog(log, func(method, pattern string, status int, _ time.Duration) {
		observed = append(observed, fmt.Sprint(method, " ", pattern, " ", status))
	}), wire.Recover(surfaceOf), wire.HeadAsGet)
	r.Get("/things/{id}", surface.Handle(handler))
	r.Post("/things/{id}", surface.Handle(handler))
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/things/7", strings.NewReader("{}")))
	want := fmt.Sprint(method, " /things/{id} ", w.Code)
	assert.True(t, len(observed) == 1 && observed[0] == want, "observed %q, want %q", observed, want)
	return w, logged.String()
}

func TestFailuresOnBothSurfaces(t *testing.T) {
	t.Parallel()
	refusal := func(kind command.Kind) error {
		return fmt.Errorf("wrapped: %w", &command.Refusal{
			Kind:    kind,
			Field:   "name",
			Message: "name must be nicer",
			Err:     errors.New("hunter2"),
		})
	}
	const nothing = ""
	tests := map[string]struct {
		err           error
		status        int
		events, feeds string
		message       string
	}{
		"malformed": {refusal(command.Malformed), 400, "INVALID_BODY", "BAD_REQUEST", "name must be nicer"},
		"invalid":   {refusal(command.Invalid), 400, "VALIDATION_FAILED", "BAD_REQUEST", "name must be nicer"},
		"not found": {refusal(command.NotFound), 404, "NOT_FOUND", "NOT_FOUND", "name must be nicer"},
		"exists":    {refusal(command.Exists), 409, "ALREADY_EXISTS", "CONFLICT", "name must be nicer"},
		"conflict":  {refusal(command.Conflict), 409, "CONFLICT", "CONFLICT", "name must be nicer"},
		"unavailable": {refusal(command.Unavailable), 503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE",
			"name must be nicer"},
		"no row": {fmt.Errorf("feed: %w", query.ErrNotFound), 404, "NOT_FOUND", "NOT_FOUND", "not found"},
		"no event store": {fmt.Errorf("load: %w", eventstore.ErrUnavailable), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"a busy stream": {fmt.Errorf("append: %w", eventstore.ErrWrongRevision), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"no dependency": {fmt.Errorf("vault: %w", command.ErrUnavailable), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"no answer": {fmt.Errorf("query: %w", context.DeadlineExceeded), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"Postgres ends": {fmt.Errorf("query: %w", &pgconn.PgError{Code: "57P01"}), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"Postgres cut": {fmt.Errorf("query: %w", io.ErrUnexpectedEOF), 503, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE",
			"try it again"},
		"nothing built": {fmt.Errorf("query: %w", &pgconn.PgError{Code: "42P01"}), 503, "SERVICE_UNAVAILABLE",
			"SERVICE_UNAVAILABLE", "try it again"},
		"wrong statement": {fmt.Errorf("query: %w", &pgconn.PgError{Code: "42601", Message: "hunter2"}), 500,
			"INTERNAL_ERROR", "INTERNAL_SERVER_ERROR", "something went wrong"},
		"anything": {errors.New("hunter2"), 500, "INTERNAL_ERROR", "INTERNAL_SERVER_ERROR", "something went wrong"},
		"about no field": {&command.Refusal{Kind: command.Malformed, Message: "too much"}, 400, "INVALID_BODY", "BAD_REQUEST",
			"too much"},
		"own": {wire.Fail(wire.TooLarge, "body", "is over %d", 7), 413, "INVALID_BODY", "BAD_REQUEST",
			"body is over 7"},
		"no access": {refusal(command.Forbidden), 403, nothing, "FORBIDDEN", "name must be nicer"},
	}
	for name, tt := range tests {
		for surface, code := range map[wire.Surface]string{wire.Events: tt.events, wire.Feeds: tt.feeds} {
			w, log := serve(t, surface, http.MethodPost, func(*http.Request) (wire.Reply, error) { return wire.Reply{}, tt.err })
			body, status, message := w.Body.String(), tt.status, tt.message
			if code == nothing { // on this surface it is as if it were not there
				status, code, message = 404, "NOT_FOUND", "not found"
			}
			assert.True(t, w.Code == status && strings.Contains(body, `"code":"`+code+`"`) && strings.Contains(body, message) &&
				strings.HasPrefix(body, `{"success":false,`), "%s: %d %s, want %d %s %s", name, w.Code, body, status, code, message)
			assert.True(t, !strings.Contains(body, "hunter2"), "%s: the cause is shown: %s", name, body)
			if details := strings.Contains(body, `"details":{"field":"`) &&
				!strings.Contains(body, `""`); details != (surface == wire.Feeds && code == "BAD_REQUEST") {
				t.Errorf("%s: details in %s", name, body)
			}
			level := "level=INFO"
			switch status {
			case 503:
				level = "level=WARN"
			case 500:
				level = "level=ERROR"
			}
			assert.True(t, strings.Contains(log, level) && strings.Contains(log, "error=") == (status >= 500),
				"%s: log %s, want %s", name, log, level)
		}
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	t.Parallel()
	w, _ := serve(t, wire.Events, http.MethodPost, func(*http.Request) (wire.Reply, error) {
		return wire.Reply{}, &wire.Failure{Kind: wire.RateLimited, Issue: "too many", RetryAfter: 1100 * time.Millisecond}
	})
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After: %s", w.Code, w.Header().Get("Retry-After"))
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	w, log := serve(t, wire.Events, http.MethodGet, func(*http.Request) (wire.Reply, error) { panic("hunter2") })
	assert.True(t, w.Code == http.StatusInternalServerError &&
		strings.Contains(w.Body.String(), `"code":"INTERNAL_ERROR"`) && !strings.Contains(w.Body.String(), "hunter2"),
		"%d %s", w.Code, w.Body)
	assert.True(t, strings.Contains(log, "panic in request") && !strings.Contains(log, "hunter2"),
		"the log lacks the panic or has its value: %s", log)
	defer func() {
		thrown, ok := recover().(error)
		assert.True(t, ok && errors.Is(thrown, http.ErrAbortHandler), "the server's own panic was kept from it")
	}()
	serve(t, wire.Events, http.MethodGet, func(*http.Request) (wire.Reply, error) { panic(http.ErrAbortHandler) })
}

func TestReplies(t *testing.T) {
	t.Parallel()
	page := wire.PageOf([]int{1, 2}, 5, 2, 2)
	last := wire.PageOf[int](nil, 5, 2, 5)
	for want, reply := range map[string]wire.Reply{
		`{"success":true}`:                     wire.Done(),
		`{"success":true,"data":{"raw":1.50}}`: wire.OK(jsontext.Value(`{"raw":1.50}`)),
		`{"success":true,"data":{"items":[1,2],"total":5,"pagination":{"limit":2,"offset":2,"hasMore":true}}}`: wire.OK(page),
		`{"success":true,"data":{"items":[],"total":5,"pagination":{"limit":2,"offset":5,"hasMore":false}}}`:   wire.OK(last),
	} {
		w, log := serve(t, wire.Feeds, http.MethodGet, func(*http.Request) (wire.Reply, error) { return reply, nil })
		assert.True(t, w.Body.String() == want && w.Code == http.StatusOK, "%d %s, want %s", w.Code, w.Body, want)
		assert.Equal(t, log, "", "a successful read is logged above debug level")
	}
	w, _ := serve(t, wire.Feeds, http.MethodGet, func(*http.Request) (wire.Reply, error) {
		return wire.OK(make(chan int)), nil
	})
	assert.Equal(t, w.Code, http.StatusInternalServerError, "unencodable data is answered … %s", w.Body)
	if w, _ := serve(t, wire.Feeds, http.MethodHead, func(*http.Request) (wire.Reply, error) {
		return wire.Done(), nil
	}); w.Code != http.StatusOK {
		t.Errorf("HEAD is answered %d", w.Code)
	}
}

func TestFieldPaths(t *testing.T) {
	t.Parallel()
	for pointer, want := range map[jsontext.Pointer]string{
		"": "body", "/name": "name", "/config/url": "config.url", "/feeds/0/feedId": "feeds[0].feedId", "/a~1b": "a/b",
		"/0": "[0]",
	} {
		assert.Equal(t, wire.FieldPath(pointer), want, "%s", pointer)
	}
}

func TestBodilessRoutesTakeAnEmptyObject(t *testing.T) {
	t.Parallel()
	for body, field := range map[string]string{
		"":             "",
		"{}":           "",
		"{}\n":         "",
		`{"now":true}`: "now",
		"[]":           "body",
		"nonsense":     "body",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		err := wire.DecodeNothing(r)
		var failure *wire.Failure
		if errors.As(err, &failure) != (field != "") ||
			failure != nil && (failure.Field != field || failure.Kind != wire.BadBody) {
			t.Errorf("%q: %v, want one about %q", body, err, field)
		}
	}
}

// brokenBody fails in the middle, as a connection that is cut.
type brokenBody struct{ sent bool }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.sent {
		return 0, io.ErrUnexpectedEOF
	}
	b.sent = true
	return copy(p, `{"name":`), nil
}

func TestCutConnectionIsTheCallersFault(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", &brokenBody{})
	err := wire.DecodeNothing(r)
	assert.Equal(t, wire.FailureOf(err).Kind, wire.BadBody, "error = %v, kind", err)
}
