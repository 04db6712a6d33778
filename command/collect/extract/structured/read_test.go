package structured_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// read reads a page as if it had been found at the address.
func read(t *testing.T, address, timezone, html string) candidate.Result {
	t.Helper()
	u := must.Get(url.Parse(address))(t)
	return readPage(t, structured.Page{URL: u, Timezone: timezone, Window: timing.WindowAt(now)}, html)
}

func readPage(t *testing.T, page structured.Page, html string) candidate.Result {
	t.Helper()
	b := budget.New(t.Context())
	root := must.Get(structured.Parse(b, html))(t)
	page.Root = root
	at, found, notes := structured.Candidates(b, page)
	result := candidate.Observe(b, at, found, notes)
	must.OK(t, b.Err())
	return result
}

func fixture(t *testing.T, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return string(data)
}

// outline lists for each observation its identity, and its occurrences in local time.
func outline(observations []collect.Observation) string {
	var b strings.Builder
	for _, o := range observations {
		d := o.Details
		fmt.Fprintf(&b, "%s [%s] %s %s %q\n", d.Title, o.Key, d.Time.TemporalPattern, d.Time.Timezone, d.Time.DisplayText)
		loc, err := time.LoadLocation(d.Time.Timezone)
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		for _, instance := range d.Instances {
			fmt.Fprintf(&b, "  %s:", instance.Status)
			for i, c := range instance.Occurrences {
				if i == 4 {
					fmt.Fprintf(&b, " … %d in all", len(instance.Occurrences))
					break
				}
				fmt.Fprintf(&b, " %s", c.Start.In(loc).Format("2006-01-02T15:04"))
				if c.End != nil {
					fmt.Fprintf(&b, "/%s", c.End.In(loc).Format("02T15:04"))
				}
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	assert.Same(t, strings.TrimSpace(got), strings.TrimSpace(want))
}

func TestDetailPage(t *testing.T) {
	t.Parallel()
	result := read(t, "https://kajhallen.example/en/programme/harbour-jazz-night?utm_source=x", "",
		fixture(t, "detail.html"))
	must.True(t, len(result.Observations) == 1 && len(result.Notes) == 0, "got %+v", result)
	o := result.Observations[0]
	compare(t, outline(result.Observations), `
Harbour Jazz Night [url:kajhallen.example/en/programme/harbour-jazz-night] singular Europe/Copenhagen "Sat 5 Dec `+
		`2026, 20:00–01:30"
  rescheduled: 2026-12-05T20:00/06T01:30`)

	total, available := 350, 12
	want := happening.Details{
		Title:            "Harbour Jazz Night",
		Description:      "<p>Three <strong>bands</strong>.</p>",
		ShortDescription: "Three bands, one stage & the sea.",
		Time:             o.Details.Time,
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Kajhallen", Address: "Havnegade 1, 8000 Aarhus, Denmark"},
			Coordinates:    &happening.Coordinates{Lat: 56.1572, Lng: 10.2107},
			Online:         &happening.Online{Platform: "YouTube", URL: "https://www.youtube.com/live/abc"},
			DisplayAddress: "Kajhallen, Havnegade 1, 8000 Aarhus, Denmark",
		},
		Capacity: &happening.Capacity{Total: &total, Available: &available},
		Organizer: &happening.Organizer{Name: "Kajhallen A/S", URL: "https://kajhallen.example/",
			Contact: "post@kajhallen.example"},
		PrimaryImage:     "https://kajhallen.example/media/1.jpg",
		SupportingImages: []string{"https://kajhallen.example/media/2.jpg"},
		PrimaryURL:       "https://www.kajhallen.example/en/programme/harbour-jazz-night",
		URLs: []string{"https://www.kajhallen.example/en/programme/harbour-jazz-night",
			"https://tickets.example/hj1?id=7", "https://www.facebook.com/events/1"},
		GeoLocations: o.Details.GeoLocations,
		Instances:    o.Details.Instances,
	}
	assert.Same(t, o.Details, want)
	g := o.Details.GeoLocations
	assert.True(t, len(g) == 1 && g[0].Description == "Kajhallen" && g[0].RelationType == happening.AtLocation &&
		g[0].Score == 100, "geo locations %+v", g)
	assert.True(t, o.PublishedAt != nil && o.PublishedAt.Equal(time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)),
		"published at %v", o.PublishedAt)
	// The id depends on the first start, so that it survives the next move.
	if want := happening.DeriveInstanceID(o.Key, "2026-11-28T20:00:00"); o.Details.Instances[0].ID != want {
		t.Errorf("instance id %s, want %s", o.Details.Instances[0].ID, want)
	}
}

func TestListing(t *testing.T) {
	t.Parallel()
	result := read(t, "https://theatre.example/whats-on", "Europe/London", fixture(t, "listing.html"))
	compare(t, outline(result.Observations), `
Hamlet [url:theatre.example/whats-on?show=hamlet] recurring Europe/London "Sat 5 Dec 2026, 14:00–17:00; Sat 5 Dec `+
		`2026, 19:30–22:30"
  scheduled: 2026-12-05T14:00/05T17:00
  scheduled: 2026-12-05T19:30/05T22:30
Open day [page:theatre.example/whats-on|open day|town theatre] singular Europe/London "Sun 6 Dec 2026"
  scheduled: 2026-12-06T00:00/07T00:00
Backstage tour [page:theatre.example/whats-on|backstage tour|town theatre] singular Europe/London "Mon 7 Dec 2026, `+
		`11:00"
  scheduled: 2026-12-07T11:00`)
	assert.True(t, len(result.Notes) == 1 && result.Notes[0].Code == collect.NoteSkippedEvent, "notes %+v", result.Notes)
	assert.Equal(t, len(result.Observations[1].Keys), 0, "a title on a page is no evidence elsewhere, but … is given")
}

func TestSeries(t *testing.T) {
	t.Parallel()
	result := read(t, "https://a.example/programme", "Europe/Paris", fixture(t, "series.html"))
	compare(t, outline(result.Observations), `
Tai chi [url:a.example/tai-chi] recurring Europe/London "Wed 2 Dec 2026, 10:00; Wed 9 Dec 2026, 10:00; Wed 16 Dec `+
		`2026, 10:00"
  scheduled: 2026-12-02T10:00
  cancelled: 2026-12-09T10:00
  scheduled: 2026-12-16T10:00
Tai chi for beginners [page:a.example/programme|tai chi for beginners|park] singular Europe/London "Thu 3 Dec 2026, `+
		`10:00"
  scheduled: 2026-12-03T10:00
Book club [page:a.example/programme|book club|library] recurring Europe/Dublin "Tue 1 Dec 2026, 18:00–19:30; Tue 2 `+
		`Feb 2027, 18:00–19:30; Tue 2 Mar 2027, 18:00–19:30"
  scheduled: 2026-12-01T18:00/01T19:30
  scheduled: 2027-02-02T18:00/02T19:30
  scheduled: 2027-03-02T18:00/02T19:30
Shoes [page:a.example/programme|shoes|museum] ongoing Europe/London "1–15 Dec 2026, 10:00–17:30"
  scheduled: 2026-12-01T10:00/01T17:30 2026-12-03T10:00/03T17:30 2026-12-08T10:00/08T17:30 2026-12-10T10:00/10T17:30 `+
		`… 5 in all
Summer [page:a.example/programme|summer|field] singular Europe/Paris "4–6 Jun 2027"
  scheduled: 2027-06-04T00:00/05T00:00 2027-06-05T00:00/06T00:00 2027-06-06T00:00/07T00:00`)
}
