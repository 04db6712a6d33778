package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// A waiting operator sees the progress of a collection, and its result; the list of sources shows both as well.
func TestSourceCollectWaits(t *testing.T) {
	t.Parallel()
	s := open(t)
	held, goOn := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held); <-goOn })
	start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.xml":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<urlset><url><loc>%[1]s/e/1</loc></url><url><loc>%[1]s/e/2</loc></url></urlset>`, server.URL)
		case "/e/1", "/e/2":
			if r.URL.Path == "/e/2" {
				hold()
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(
				w, `<script type="application/ld+json">{"@type":"Event","name":"Event %s","startDate":%q}</script>`,
				r.URL.Path, start)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	source := s.ok("source", "add", "sitemap", server.URL+"/sitemap.xml")
	var out, errors apitest.Buffer
	waited := make(chan int, 1)
	go func() {
		args := append([]string{"source", "collect", source, "--wait"}, s.server...)
		waited <- run(t.Context(), args, terminal{in: strings.NewReader(""), out: &out, err: &errors})
	}()
	select {
	case <-held:
	case <-time.After(2 * time.Minute):
		t.Fatal("the second page is not asked for")
	}
	s.matches(source+` .*\bcollecting 2/3\b`, "source", "list")
	if list := s.ok("source", "list", "--json"); !strings.Contains(strings.Join(strings.Fields(list), ""),
		`"requested":false,"progress":{"asked":2,"linked":3}`) {
		t.Errorf("source list --json:\n%s", list)
	}
	must.Eventually(t, "it shows the progress", func() bool { return strings.Contains(errors.String(), "\n") })
	select {
	case code := <-waited:
		t.Fatalf("it does not wait: exit %d\n%s%s", code, &out, &errors)
	default:
	}
	close(goOn)
	if code := <-waited; code != 0 || !strings.Contains(out.String(), "2 events on show") {
		t.Errorf("exit %d\n%s%s", code, &out, &errors)
	}
	var after []query.Source // of this site: those of other tests may be walked through
	err := json.Unmarshal([]byte(s.ok("source", "list", "--q", server.URL, "--json")), &after)
	assert.True(t, err == nil && len(after) == 1 && after[0].Asked == nil,
		"source list --json after the walk: %+v, %v", after, err)
}

func TestHowFarAWalkIs(t *testing.T) {
	t.Parallel()
	of := func(asked, linked int) query.SourceProgress {
		return query.SourceProgress{Asked: &asked, Linked: &linked}
	}
	for want, s := range map[string]query.Source{
		"waiting for its turn":                                    {},
		"[                        ] 0 of 1 page":                  {SourceProgress: of(0, 0)},
		"[############            ] 1 of 2 pages, the host rests": {SourceProgress: of(1, 2), Message: "the host rests"},
		"[########################] 7 of 7 pages":                 {SourceProgress: of(7, 5)},
	} {
		assert.Equal(t, walkText(s), want, "walkText")
	}
}

// An operator sees of each source how it does and what to do, and has one visited no more whose owner objects.
func TestSourcesAreListedPausedAndResumed(t *testing.T) {
	t.Parallel()
	s := open(t)
	site := pageServer(t, map[string]string{"/programme": jazzPage()})
	page, gone := s.ok("source", "add", "site", site+"/programme"), s.ok("source", "add", "site", site+"/gone")
	collect := func() {
		t.Helper()
		code, out, errors := s.run("source", "collect", page, "--wait")
		must.True(t, code == 0, "collect gives exit %d\n%s%s", code, out, errors)
	}
	collect()
	s.refused("http_status", "source", "collect", gone, "--wait")

	s.matches(`ID +TYPE +WHERE +STATE +SINCE +EVENTS +PAGES +NEW +REVISED +STALE +FEEDS `+
		`+BACKFILL +TRIED +LAST +EVERY +NEXT +REMARK`, "source", "list")
	s.matches(page+` +site +\S+/programme +ok +.* 1 +1 +1 +0 +0 +0 `, "source", "list")
	s.matches(gone+` +site +\S+/gone +failing +.*http_status: .*http status 404. What to do: `+
		`open the address in a browser`, "source", "list")
	narrow := s.ok("source", "list", "--state", "failing", "--type", "site", "--q", "GONE")
	assert.True(t, !strings.Contains(narrow, page) && strings.Contains(narrow, gone), "--state failing:\n%s", narrow)
	s.refused("state must be one of registered, collecting, ok", "source", "list", "--state", "broken")
	s.matches(`\d+ sources: .*\b\d+ failing, \d+ ok`, "status")

	fails(t, 2, "--reason", "source", "pause", page)
	s.ok("source", "pause", page[:13], "--reason", "the owner objects")
	s.matches(page+` .* paused .*the owner objects \(operator\)\. What to do: "carillon source resume `+page,
		"source", "list", "--state", "paused")
	s.matches(`\d+ sources: .*\b\d+ paused`, "status")
	s.refused("source is paused: the owner objects; resume it first", "source", "collect", page, "--wait")
	s.ok("source", "resume", page)
	s.shows(page, "source", "list", "--state", "ok")
	collect()
}
