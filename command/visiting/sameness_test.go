package visiting_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/command/visiting"
)

// foxInn is a page of an event, "title|start|end|venue"; more is for its head.
func foxInn(event, more string) string {
	f := append(strings.Split(event, "|"), "", "", "")
	end, where := "", ""
	if f[2] != "" {
		end = `, "endDate": "` + f[2] + `"`
	}
	if f[3] != "" {
		where = `, "location": {"@type": "Place", "name": "` + f[3] + `", "address": "4 Mill Lane, Leeds, LS1 4AB"}`
	}
	return `<html><head><title>` + f[0] + `</title>` + more + `<script type="application/ld+json">{"@context": ` +
		`"https://schema.org", "@type": "Event", "name": "` + f[0] + `", "startDate": "` + f[1] + `"` + end + where +
		`}</script></head><body></body></html>`
}

// Two pages of one source, listed one after the other, show one event if one place decides so.
func TestPagesOfOneSource(t *testing.T) {
	t.Parallel()
	const songs = "Abend der Lieder|2026-12-23T20:00:00+01:00||Fox Inn"
	for name, tt := range map[string]struct {
		pages map[string]string // those that the listing links, in the order of their names
		lists string            // in the listing beside its links
		want  []string          // titles
	}{
		"a print version": {
			pages: map[string]string{"/a": foxInn(songs, ""), "/b?print=1": foxInn(songs, "")},
			want:  []string{"Abend der Lieder"},
		},
		"an entry without an address in the listing": {
			pages: map[string]string{"/a": foxInn(songs, "")},
			lists: foxInn(songs, ""),
			want:  []string{"Abend der Lieder"},
		},
		"an entry with a day alone": {
			pages: map[string]string{"/a": foxInn(songs, "")},
			lists: foxInn("Abend der Lieder|2026-12-23||Fox Inn", ""),
			want:  []string{"Abend der Lieder"},
		},
		"at another hour": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "T20", "T18", 1), ""),
			},
			want: []string{"Abend der Lieder", "Abend der Lieder"},
		},
		"with another end": {
			pages: map[string]string{
				"/a": foxInn(strings.Replace(songs, "||", "|2026-12-23T21:00:00+01:00|", 1), ""),
				"/b": foxInn(strings.Replace(songs, "||", "|2026-12-23T22:00:00+01:00|", 1), ""),
			},
			want: []string{"Abend der Lieder", "Abend der Lieder"},
		},
		"in another house": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "Fox Inn", "Owl Barn", 1), ""),
			},
			want: []string{"Abend der Lieder", "Abend der Lieder"},
		},
		"nearly the same title": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "Abend", "Großer Abend", 1), ""),
			},
			want: []string{"Abend der Lieder", "Großer Abend der Lieder"},
		},
		"a common title and no place": {
			pages: map[string]string{
				"/a": foxInn("Yoga|2026-12-23T20:00:00Z", ""),
				"/b": foxInn("Yoga|2026-12-23T20:00:00Z", ""),
			},
			want: []string{"Yoga", "Yoga"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := triedTitles(t, tt.pages, tt.lists); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// tried returns the observations of a listing that links pages.
func tried(t *testing.T, pages map[string]string, lists string) []collect.Observation {
	t.Helper()
	var links []string
	for path := range pages {
		links = append(links, `<a href="`+path+`">more</a>`)
	}
	slices.Sort(links)
	files := map[string]string{"/list": "<html>" + lists + strings.Join(links, " ") + strings.Repeat(" words", 50)}
	for path, page := range pages {
		files[path] = page
	}
	s := walktest.Serve(t, listing.Type, files, func(f *fetch.Fetcher) collect.Collector {
		return listing.New(site.New(f, func() time.Time { return walktest.Now }))
	})
	found, err := visiting.Trial{
		Source:    s.Source("/list"),
		Collector: s.Collector,
		Most:      50,
		Now:       walktest.Now,
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return found.Observations
}

func triedTitles(t *testing.T, pages map[string]string, lists string) (titles []string) {
	t.Helper()
	for _, o := range tried(t, pages, lists) {
		titles = append(titles, o.Details.Title)
	}
	slices.Sort(titles)
	return titles
}
