package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A sitemap and a listing are walked, and an event on several pages is one event.
func TestSourceTryWalks(t *testing.T) {
	t.Parallel()
	const about = `<html><head><title>%[1]s</title></head><h1>%[1]s</h1><script ` +
		`type="application/ld+json">{"@type":"Event","name":"%[1]s","url":"%[2]s",` +
		`"startDate":"2026-12-05T20:00","location":"Kajhallen","description":"All that is to be said of ` +
		`it."}</script>`
	pages := map[string]string{
		"/sitemap.xml": `<urlset><url><loc>/e/jazz</loc></url><url><loc>/e/quiz</loc></url><url><loc>/about</loc></url>` +
			`<url><loc>http://10.0.0.1/</loc></url></urlset>`,
		"/programme": `<title>Programme</title><a href="/e/jazz">Jazz</a><a href="/e/quiz">Quiz</a><a ` +
			`href="/gone">x</a><script type="application/ld+json">` +
			`{"@type":"Event","name":"Jazz","url":"/e/jazz","startDate":"2026-12-05T20:00"}</script>`,
		"/e/jazz": fmt.Sprintf(about, "Jazz", "/e/jazz"),
		"/e/quiz": fmt.Sprintf(about, "Quiz", "/e/quiz"),
		"/about":  strings.Repeat("words ", 50),
		"/empty":  `<a href="/about">x</a>` + strings.Repeat("words ", 50),
	}
	site := pageServer(t, pages)
	type summary struct {
		Pages, Events  int
		LeftOut, Notes []struct{ Code, Text string }
	}
	try := func(args ...string) (titles []string, descriptions string, s summary) {
		t.Helper()
		code, out, errors := runIn(t.Context(), "",
			append([]string{"source", "try", "--timezone", "Europe/Copenhagen", "--now", "2026-11-21", "--json"},
				args...)...)
		if code != 0 || errors != "" {
			t.Fatalf("%q: code %d, %s", args, code, errors)
		}
		for line := range strings.Lines(out) {
			var event struct {
				Title, Description string
				Summary            *summary
			}
			if err := json.Unmarshal([]byte(line), &event); err != nil {
				t.Fatal(err)
			}
			if event.Summary != nil {
				return titles, descriptions, *event.Summary
			}
			titles, descriptions = append(titles, event.Title), descriptions+event.Description
		}
		t.Fatalf("no summary:\n%s", out)
		return nil, "", summary{}
	}

	titles, descriptions, s := try(site+"/", "--type", "sitemap")
	if strings.Join(titles, " ") != "Jazz Quiz" || strings.Count(descriptions, "All that") != 2 || s.Pages != 4 ||
		len(s.LeftOut) != 0 || len(s.Notes) != 1 || s.Notes[0].Code != "left-out" {
		t.Errorf("sitemap: %q, %+v", titles, s)
	}
	titles, descriptions, s = try(site+"/programme", "--type", "siteIndexPage")
	if strings.Join(titles, " ") != "Jazz Quiz" || strings.Count(descriptions, "All that") != 2 || s.Pages != 3 ||
		len(s.Notes) != 1 || !strings.Contains(s.Notes[0].Text, "/gone can't be read: ") {
		t.Errorf("listing: %q, %+v", titles, s)
	}
	titles, _, s = try(site+"/programme", "--type", "siteIndexPage", "--pages", "2")
	if strings.Join(titles, " ") != "Jazz" || s.Pages != 2 || len(s.LeftOut) != 1 ||
		!strings.Contains(s.LeftOut[0].Text, "2 pages were read, at least 2 more were not") {
		t.Errorf("two pages: %q, %+v", titles, s)
	}
	if titles, _, s = try(site+"/empty", "--type", "siteIndexPage"); len(titles) != 0 || s.Pages != 2 ||
		len(s.Notes) != 1 || s.Notes[0].Code != "no-events" {
		t.Errorf("nothing found: %q, %+v", titles, s)
	}
	without := pageServer(t, map[string]string{"/about": pages["/about"]})
	for name, args := range map[string][]string{
		"no sitemap": {without + "/about", "--type", "sitemap", "--pages", "1"},
		"no listing": {site + "/nix", "--type", "siteIndexPage"}, "no page": {site + "/programme", "--pages", "0"},
	} {
		if code, out, errors := runIn(t.Context(), "", append([]string{"source", "try"}, args...)...); code != 1 ||
			out != "" || errors == "" {
			t.Errorf("%s gives code %d, %q, %q", name, code, out, errors)
		}
	}
}
