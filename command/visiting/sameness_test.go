package visiting_test

import (
	"fmt"
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
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
		"in two languages": {
			pages: map[string]string{
				"/de/a": foxInn(songs, inLanguages),
				"/en/b": foxInn(strings.Replace(songs, "Abend der Lieder", "An evening of songs", 1), inLanguages),
			},
			want: []string{"An evening of songs"},
		},
		"in two languages at other hours": {
			pages: map[string]string{
				"/de/a": foxInn(songs, inLanguages),
				"/en/b": foxInn("An evening of songs|2026-12-23T18:00:00+01:00||Fox Inn", inLanguages),
			},
			want: []string{"Abend der Lieder", "An evening of songs"},
		},
		"in two languages that name the front page": {
			pages: map[string]string{
				"/de/a": foxInn(songs, `<link rel="alternate" hreflang="en" href="/en/">`),
				"/de/b": foxInn("Tanz|2026-12-23T20:00:00+01:00||Fox Inn", `<link rel="alternate" hreflang="en" href="/en/">`),
			},
			want: []string{"Abend der Lieder", "Tanz"},
		},
		"a calendar beside the page": {
			pages: map[string]string{
				"/a":             foxInn(clay, ""),
				"/a?format=ical": fmt.Sprintf(clayCalendar, "4 Mill Lane\\, Leeds\\, LS1 4AB"),
			},
			want: []string{"Clay day"},
		},
		"a calendar that names the house": {
			pages: map[string]string{
				"/a":        foxInn(clay, ""),
				"/a?ical=1": fmt.Sprintf(clayCalendar, "Fox Inn\\, 4 Mill Lane\\, Leeds\\, LS1 4AB"),
			},
			want: []string{"Clay day"},
		},
		"a calendar beside a page with the name of its site": {
			pages: map[string]string{
				"/a": foxInn(strings.Replace(clay, "Clay day", "Clay day — Mud Studio", 1),
					`<meta property="og:site_name" content="Mud Studio">`),
				"/a?ical=1": fmt.Sprintf(clayCalendar, ""),
			},
			want: []string{"Clay day"},
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
		"a longer title": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "Abend", "Großer Abend", 1), ""),
			},
			want: []string{"Abend der Lieder"},
		},
		"a longer title than in the listing": {
			pages: map[string]string{"/a": foxInn(strings.Replace(songs, "Lieder", "Lieder – Kammerchor", 1), "")},
			lists: foxInn(songs, ""),
			want:  []string{"Abend der Lieder"},
		},
		"a parameter that nobody knows": {
			pages: map[string]string{"/a?xref=1": foxInn(songs, ""), "/a?xref=2": foxInn(songs, "")},
			want:  []string{"Abend der Lieder"},
		},
		"a series in the listing, a page for each date": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.ReplaceAll(songs, "-23T", "-24T"), ""),
			},
			lists: strings.Replace(foxInn(songs, ""), `"startDate"`, `"subEvent": [{"@type": "Event", "startDate": `+
				`"2026-12-23T20:00:00+01:00"}, {"@type": "Event", "startDate": "2026-12-24T20:00:00+01:00"}], "startDate"`, 1),
			want: []string{"Abend der Lieder"},
		},
		"two that the listing shows side by side": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "Abend", "Großer Abend", 1), ""),
			},
			lists: foxInn(songs, "") + foxInn(strings.Replace(songs, "Abend", "Großer Abend", 1), ""),
			want:  []string{"Abend der Lieder", "Großer Abend der Lieder"},
		},
		"for other people": {
			pages: map[string]string{
				"/a": foxInn(strings.Replace(songs, "Abend", "Kinder-Abend", 1), ""),
				"/b": foxInn(strings.Replace(songs, "Abend", "Senioren-Abend", 1), ""),
			},
			want: []string{"Kinder-Abend der Lieder", "Senioren-Abend der Lieder"},
		},
		"a quarter of an hour later": {
			pages: map[string]string{
				"/a": foxInn(songs, ""),
				"/b": foxInn(strings.Replace(songs, "T20:00", "T20:15", 1), ""),
			},
			want: []string{"Abend der Lieder", "Abend der Lieder"},
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
			assert.Slices(t, triedTitles(t, tt.pages, tt.lists), tt.want, "triedTitles")
		})
	}
}

const (
	clay         = "Clay day|2026-12-09T15:00:00Z|2026-12-09T18:00:00Z|Fox Inn"
	clayCalendar = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:u1\r\nSUMMARY:Clay day\r\nDTSTART:20261209T150000Z\r\n" +
		"DTEND:20261209T180000Z\r\nLOCATION:%s\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	inLanguages = `<link rel="alternate" hreflang="x-default" href="/en/b"><link rel="alternate" hreflang="de" ` +
		`href="/de/a"><link rel="alternate" hreflang="en" href="/en/b">`
)

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
	found := must.Get(visiting.Trial{
		Source:    s.Source("/list"),
		Collector: s.Collector,
		Most:      50,
		Now:       walktest.Now,
	}.Run(t.Context()))(t)
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
