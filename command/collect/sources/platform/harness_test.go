package platform_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/facebook"
	"carillon/command/collect/sources/instagram"
	"carillon/command/collect/sources/platform"
	"carillon/command/collect/sources/tiktok"
	"carillon/command/collect/sources/twitter"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// secret is the token of all tests. No output may contain it.
const secret = "EAAB-s3cret-t0ken-of-the-operator-that-must-never-be-shown"

// now is shortly after the samples were written.
var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// answers play a platform: the replies are sent in order, the last one repeatedly.
type answers struct {
	mu      sync.Mutex
	replies []reply
	asked   []asked
}

type asked struct{ method, path, query, body, authorization string }

type reply struct {
	status int // 0: 200
	body   string
	header map[string]string
	cut    bool // the connection ends within the body
	match  string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.asked = append(a.asked, asked{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Get("Authorization")})
	next := reply{status: http.StatusNotFound}
	for i, candidate := range a.replies {
		if strings.Contains(r.URL.RequestURI()+string(body), candidate.match) {
			next = candidate
			if i < len(a.replies)-1 || candidate.match != "" {
				a.replies = append(a.replies[:i:i], append(a.replies[i+1:len(a.replies):len(a.replies)], keep(candidate)...)...)
			}
			break
		}
	}
	a.mu.Unlock()
	w.Header().Set("Date", now.Format(http.TimeFormat))
	for name, value := range next.header {
		w.Header().Set(name, value)
	}
	if next.cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(next.body)+100))
	}
	if next.status != 0 {
		w.WriteHeader(next.status)
	}
	_, _ = io.WriteString(w, next.body)
}

// keep repeats a reply that belongs to a certain request.
func keep(r reply) []reply {
	if r.match == "" {
		return nil
	}
	return []reply{r}
}

func (a *answers) requests() []asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// play starts a server.
func play(t *testing.T, replies ...reply) (*answers, platform.Options) {
	t.Helper()
	a := &answers{replies: replies}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return a, platform.Options{
		Base:      server.URL,
		Transport: transport,
		UserAgent: "Carillon",
		Hosts:     fetch.NewMemory(),
		Now:       func() time.Time { return now },
	}
}

// free has no limits.
type free struct{ fetch.Hosts }

func (free) Take(context.Context, string, time.Duration) (time.Duration, bool, error) {
	return 0, false, nil
}

func (free) Rest(context.Context, string, time.Duration) error { return nil }

func now0() time.Time { return now }

func sample(t testing.TB, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return string(data)
}

func window() timing.Window { return timing.WindowAt(now) }

// collectors returns the collectors of all platforms, with one token each.
func collectors(o platform.Options) map[string]collect.Collector {
	return map[string]collect.Collector{
		"facebook": facebook.New(secret, window, o), "instagram": instagram.New(secret, "17841405309211844", window, o),
		"tiktok": tiktok.New(map[string]string{"kajhallen": secret}, window, o), "twitter": twitter.New(secret, window, o),
	}
}

func account(platformType string) collect.Source {
	return collect.Source{Type: platformType, Handle: "kajhallen", Timezone: "Europe/Copenhagen"}
}

// walked is the result of a walk.
type walked struct {
	observations []collect.Observation
	notes        collect.Notes
	passed       []collect.Passed
	addresses    []string
	partial      bool
	unchanged    int
	err          error // of the root, or the end of the walk
	pageErrs     []error
}

// walk walks through an account once, and searches all output for the secret.
func walk(t *testing.T, c collect.Collector, source collect.Source, pages *frontier.Memory) walked {
	t.Helper()
	return walkUpTo(t, c, source, pages, 100)
}

func walkUpTo(t *testing.T, c collect.Collector, source collect.Source, pages *frontier.Memory, most int) walked {
	t.Helper()
	if pages == nil {
		pages = frontier.New(c.Start(source), now)
	}
	var w walked
	for visited, err := range collect.Walk(t.Context(), c, source, pages) {
		if err != nil {
			w.err = err
			break
		}
		if visited.Known.Root && visited.Err != nil {
			w.err = visited.Err
		} else if visited.Err != nil {
			w.pageErrs = append(w.pageErrs, visited.Err)
		}
		pages.Record(visited, now)
		p := visited.Page
		w.observations, w.notes, w.passed = append(w.observations, p.Observations...), append(w.notes, p.Notes...),
			append(w.passed, p.Passed...)
		w.addresses, w.partial = append(w.addresses, visited.Known.Address), w.partial || p.Partial
		if p.Unchanged {
			w.unchanged++
		}
		assert.True(t, len(p.State) <= collect.MaxState, "a state of %d bytes", len(p.State))
		must.True(t, len(w.addresses) <= most, "the walk has no end")
		keepsSecrets(t, fmt.Sprintf("%+v %s", visited, p.State))
	}
	keepsSecrets(t, fmt.Sprintf("%+v %#v", w, w.err))
	for err := w.err; err != nil; err = errors.Unwrap(err) {
		keepsSecrets(t, fmt.Sprintf("%v %+v %#v", err, err, err))
	}
	return w
}

func keepsSecrets(t *testing.T, text string) {
	t.Helper()
	assert.True(t, !strings.Contains(text, secret) && !strings.Contains(text, "s3cret"), "the token shows: %.300s", text)
}

func summary(o collect.Observation) string {
	first := o.Details.Instances[0].Occurrences[0]
	when := first.Start.Format("2006-01-02T15:04Z")
	if first.AllDay {
		when = first.Start.In(mustZone(o.Details.Time.Timezone)).Format(time.DateOnly)
	}
	return fmt.Sprintf("%s | %s | %s %s | %s", o.Details.Title, when, o.Source.Type, o.Source.Subtype,
		o.Source.PermalinkURL)
}

func mustZone(name string) *time.Location {
	if zone := timing.LoadZone(name); zone != nil {
		return zone
	}
	return time.UTC
}
