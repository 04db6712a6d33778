package fetch_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
)

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
				if err != nil || panicked != 3 {
					t.Errorf("the last one got %v, after %d panics", err, panicked)
				}
			})
		})
	}
}
