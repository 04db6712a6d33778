package listing_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/command/collect/crawl/walktest"
	"carillon/eventstore/storetest/assert"
)

// monthsAhead returns which month after the current one a request is for.
func monthsAhead(text string) int {
	text = strings.Trim(text, "/")
	at, err := time.Parse("2006-01", text[max(0, len(text)-len("2006-01")):])
	if err != nil {
		return 0
	}
	return 12*(at.Year()-walktest.Now.Year()) + int(at.Month()) - int(walktest.Now.Month())
}

// The months of a listing are followed as pages are, until they have no new links or are outside of the window.
func TestMonths(t *testing.T) {
	t.Parallel()
	ahead := func(n int) time.Time {
		return time.Date(walktest.Now.Year(), walktest.Now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, n, 0)
	}
	address := func(form string) func(int) string { return func(n int) string { return ahead(n).Format(form) } }
	byQuery := func(name string) func(*http.Request) int {
		return func(r *http.Request) int { return monthsAhead(r.URL.Query().Get(name)) }
	}
	byPath := func(r *http.Request) int { return monthsAhead(strings.ReplaceAll(r.URL.Path[1:], "list/2", "2")) }
	next := func(of func(int) string) func(int) string {
		return func(n int) string {
			return fmt.Sprintf(`<a href=%q>‹</a><a href=%q>Next month</a>`, of(n-1), of(n+1))
		}
	}
	for name, tt := range map[string]struct {
		of     func(*http.Request) int
		around func(int) string
		months int // with events
		read   int // minimum of them that are read
		most   int // pages of the listing
	}{
		"a date in the query": {byQuery("month"), next(address("/list?month=2006-01")), 4, 4, 9},
		"a date in the path":  {byPath, next(address("/list/2006-01")), 4, 4, 9},
		"without words": {byQuery("d"), func(n int) string {
			return fmt.Sprintf(`<a href=%q>»</a><a href="/list/2026-12-05">5</a>`, address("/list?d=2006-01")(n+1))
		}, 4, 4, 9},
		"words without a date": {query("go"), func(n int) string {
			const links = `<a href="/list?go=%d" aria-label="Nächster Monat">»</a><a href="/day/%s">1</a>`
			return fmt.Sprintf(links, n+1, ahead(n).Format("2006-01-02"))
		}, 4, 4, 9},
		"for ever, dated": {byQuery("month"), next(address("/list?month=2006-01")), 1 << 20, 10, 18},
		"for ever, undated": {query("go"), func(n int) string {
			return fmt.Sprintf(`<a href="/list?go=%d">Mois suivant</a>`, n+1)
		}, 1 << 20, 10, 18},
		"not to be followed": {byQuery("month"), func(n int) string {
			return fmt.Sprintf(`<a rel=nofollow href=%q>Next month</a>`, address("/list?month=2006-01")(n+1))
		}, 4, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]string{"/robots.txt": ""})
			s.Handle("*", func(w http.ResponseWriter, r *http.Request) {
				n := tt.of(r)
				w.Header().Set("Content-Type", "text/html")
				body := tt.around(n)
				if n < tt.months && !strings.HasPrefix(r.URL.Path, "/e/") {
					body += fmt.Sprintf(`<a href="/e/%d">show</a>`, n)
				}
				_, _ = fmt.Fprint(w, walktest.Plain(body))
			})
			found := s.Walk(t, "/list")
			read := 0
			for _, path := range found.Asked {
				if strings.HasPrefix(path, "/e/") {
					read++
				}
			}
			months := 0
			for _, path := range found.Asked {
				if strings.HasPrefix(path, "/list") {
					months++
				}
			}
			assert.True(t, read >= tt.read && months <= tt.most,
				"%d months with events and %d pages of the listing were read: %q", read, months, found.Asked)
		})
	}
}
