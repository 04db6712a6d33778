package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
)

// Answered is called for each request, including that for robots.txt, and for nothing else.
func TestAnsweredIsCalled(t *testing.T) {
	t.Parallel()
	server := site(t, map[string]http.HandlerFunc{
		"/robots.txt": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "User-agent: *\nDisallow: /secret\n")
		},
		"/page": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = io.WriteString(w, "hello")
		},
		"/large": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1000)) },
		"/old":   redirect("/page"), "/gone": status(http.StatusGone), "/busy": status(http.StatusTooManyRequests),
		"/down": status(http.StatusBadGateway),
	})
	for path, want := range map[string]string{
		"/page": "ok ok", "/old": "ok redirect ok", "/gone": "ok client_error", "/busy": "ok rate_limited",
		"/down": "ok server_error", "/large": "ok unread", "/secret": "ok", "/known": "ok client_error",
	} {
		var mu sync.Mutex
		var reported []string
		f := newFetcher(t, fetch.Options{MaxBytes: 500, Answered: func(outcome string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, outcome)
			if took <= 0 {
				t.Errorf("%s took %s", path, took)
			}
		}})
		_, _ = f.Get(t.Context(), server.URL+path, fetch.Validators{}) // the result is tested elsewhere
		if got := strings.Join(reported, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for want, ends := range map[string][]struct {
		status int
		err    error
	}{
		"ok": {{200, nil}, {204, nil}}, "not_modified": {{304, nil}}, "redirect": {{301, nil}}, "client_error": {{404, nil},
			{0, &collect.StatusError{Code: 410}}},
		"rate_limited": {{429, nil}}, "server_error": {{503, nil}, {0, fmt.Errorf("x: %w", &collect.StatusError{Code: 500})}},
		"timeout":         {{0, collect.ErrTimeout}, {0, context.DeadlineExceeded}},
		"blocked_address": {{0, fmt.Errorf("x: %w", collect.ErrBlockedAddress)}},
		"connection":      {{0, collect.ErrConnection}}, "stopped": {{0, context.Canceled}},
		"unread": {{0, collect.ErrTooLarge},
			{0, errors.New("unforeseen")}},
	} {
		for _, end := range ends {
			if got := fetch.OutcomeOf(end.status, end.err); got != want || !slices.Contains(fetch.Outcomes(), got) {
				t.Errorf("%d %v: %s, want %s", end.status, end.err, got, want)
			}
		}
	}
}
