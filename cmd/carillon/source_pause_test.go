package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// An operator sees of each source how it does and what to do, and has one visited no more whose owner objects.
func TestSourcesAreListedPausedAndResumed(t *testing.T) {
	t.Parallel()
	s := open(t)
	start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<script type="application/ld+json">`+
			`{"@type":"Event","name":"Jazz","startDate":%q}</script>`, start)
	}))
	t.Cleanup(server.Close)
	page, gone := s.ok("source", "add", "site", server.URL+"/programme"),
		s.ok("source", "add", "site", server.URL+"/gone")
	collect := func() {
		t.Helper()
		if code, out, errors := s.run("source", "collect", page, "--wait"); code != 0 {
			t.Fatalf("collect gives exit %d\n%s%s", code, out, errors)
		}
	}
	collect()
	s.refused("http_status", "source", "collect", gone, "--wait")

	expect := func(what, text, pattern string) {
		t.Helper()
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s lacks %s:\n%s", what, pattern, text)
		}
	}
	list := s.ok("source", "list")
	expect("the list", list, `ID +TYPE +WHERE +STATE +SINCE +EVENTS +PAGES +NEW +REVISED +STALE +FEEDS `+
		`+BACKFILL +TRIED +LAST +EVERY +NEXT +REMARK`)
	expect("the list", list, page+` +site +\S+/programme +ok +.* 1 +1 +1 +0 +0 +0 `)
	expect("the list", list, gone+` +site +\S+/gone +failing +.*http_status: .*http status 404. What to do: `+
		`open the address in a browser`)
	if narrow := s.ok("source", "list", "--state", "failing"); strings.Contains(narrow, page) ||
		!strings.Contains(narrow, gone) {
		t.Errorf("--state failing:\n%s", narrow)
	}
	if narrow := s.ok("source", "list", "--type", "site", "--q", "PROGRAMME"); !strings.Contains(narrow, page) ||
		strings.Contains(narrow, gone) {
		t.Errorf("--type site --q PROGRAMME:\n%s", narrow)
	}
	s.refused("state must be one of registered, collecting, ok", "source", "list", "--state", "broken")
	s.refused("type must be one of site, sitemap", "source", "list", "--type", "radio")
	expect("status", s.ok("status"), `\d+ sources: .*\b\d+ failing, \d+ ok`)

	if code, _, errors := s.run("source", "pause", page); code != 2 || !strings.Contains(errors, "--reason") {
		t.Errorf("a pause without a reason gives exit %d\n%s", code, errors)
	}
	for range 2 {
		s.ok("source", "pause", page[:13], "--reason", "the owner objects")
	}
	expect("the list", s.ok("source", "list", "--state", "paused"), page+
		` .* paused .*the owner objects \(operator\)\. What to do: "carillon source resume `+page)
	expect("status", s.ok("status"), `\d+ sources: .*\b\d+ paused`)
	s.refused("source is paused: the owner objects; resume it first", "source", "collect", page, "--wait")
	for range 2 {
		s.ok("source", "resume", page)
	}
	expect("the list", s.ok("source", "list", "--state", "ok"), page)
	collect()
}
