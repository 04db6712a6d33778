package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/fetch/hoststest"
	"carillon/eventstore/storetest/assert"
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
			assert.True(t, took > 0, "%s took %s", path, took)
		}})
		_, _ = f.Get(t.Context(), server.URL+path, fetch.Validators{}) // the result is tested elsewhere
		assert.Equal(t, strings.Join(reported, " "), want, "%s", path)
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

// A panic anywhere in a fetch leaves nothing taken: the next one of the same host gets its page.
func TestFetch_survivesAPanic(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"robots", "request", "read", "use", "room", "answered"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				left, panicked := 3, 0
				at := func(here string) {
					if here == place && left > 0 {
						left--
						panicked++
						panic("planted")
					}
				}
				below := &web{}
				f := newFetcher(t, fetch.Options{
					Parallel: 1,
					Room:     func(context.Context) error { at("room"); return nil },
					Answered: func(string, time.Duration) { at("answered") },
					Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						if r.URL.Path == "/robots.txt" {
							at("robots")
						} else {
							at("request")
						}
						return below.RoundTrip(r)
					}),
				})
				ask := fetch.Ask{URL: "https://one.example/page", Use: func(*fetch.Page) { at("use") }}
				if place == "read" {
					ask.Use, ask.Limit = nil, 10
					ask.Read = func(_ *fetch.Page, body io.Reader) error {
						at("read")
						_, err := io.Copy(io.Discard, body)
						return err
					}
				}
				var err error
				for range 4 {
					err = collect.Survive(&url.URL{}, func() error { _, err := f.Do(t.Context(), ask); return err })
				}
				assert.True(t, err == nil && panicked == 3, "the last one got %v, after %d panics", err, panicked)
			})
		})
	}
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	hosts := fetch.NewMemory()
	hoststest.Run(t, func(*testing.T) fetch.Hosts { return hosts })
}
