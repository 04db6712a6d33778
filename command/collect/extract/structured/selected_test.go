package structured_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
)

// The settings of a source decide what is read.
func TestSettingsOfSource(t *testing.T) {
	t.Parallel()
	const list = `<h1>Events</h1><ul><li><a href="/a">Folk</a> 5 December 2026</li><li><a href="/b">Jazz</a> ` +
		`9 January 2027</li><li><a href="/c">Swing</a> 6 February 2027</li></ul>`
	const page = list + `<table id="x"><tr><td>05.12.</td><td><b>Choir</b></td><td class="t">20:00</td><td>Fox Inn</td>` +
		`<td><i><a href="/d">More</a></i></td></tr><tr><td>1 December 2025</td><td><b>Past</b></td></tr>` +
		`<tr><td></td><td><b>Undated</b></td></tr><tr><td>8.12.</td></tr></table><p class="e"><time ` +
		`datetime="2026-12-07T19:00">Monday</time> to <time datetime="2026-12-07T22:00">ten</time> <b>Opera</b></p>`
	for name, c := range map[string]struct {
		settings source.Settings
		want     string
	}{
		"default": {source.Settings{}, "Folk 2026-12-05T00:00 list https://x.example/a | Jazz 2027-01-09T00:00 list " +
			"https://x.example/b | Swing 2027-02-06T00:00 list https://x.example/c"},
		"lists are ignored": {source.Settings{IgnoreLists: true}, ""},
		"selectors": {source.Settings{Selectors: source.Selectors{
			Event: "#x tr",
			Title: "b",
			Start: "td:nth-child(1)",
			End:   ".t",
			Place: "td:nth-child(4)",
			Link:  "i",
		}}, "Choir 2026-12-05T20:00 selectors https://x.example/d Fox Inn"},
		"dates for programs": {source.Settings{Selectors: source.Selectors{
			Event: "p.e",
			Title: "b",
			Start: "time:first-of-type",
			End:   "time:last-of-type",
		}}, "Opera 2026-12-07T19:00/22:00 selectors https://x.example/events"},
		"defaults of fields": {source.Settings{Selectors: source.Selectors{Event: "ul > li:first-child"}},
			"Folk 2026-12-05T00:00 selectors https://x.example/a"},
		"selectors that find nothing": {source.Settings{
			IgnoreLists: true,
			Selectors:   source.Selectors{Event: "ol"},
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := budget.New(t.Context())
			root, err := structured.Parse(b, page)
			if err != nil {
				t.Fatal(err)
			}
			result, err := structured.Read(b, structured.Page{
				URL:      &url.URL{Scheme: "https", Host: "x.example", Path: "/events"},
				Root:     root,
				Timezone: "UTC",
				Settings: c.settings,
				Window:   timing.WindowAt(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, o := range result.Observations {
				at := o.Details.Instances[0].Occurrences[0]
				line := o.Details.Title + " " + at.Start.Format("2006-01-02T15:04")
				if at.End != nil && !at.AllDay {
					line += at.End.Format("/15:04")
				}
				line += fmt.Sprintf(" %s %s", o.Origins[0].Syntax, o.Details.PrimaryURL)
				if l := o.Details.Location; l != nil {
					line += " " + l.DisplayAddress
				}
				got = append(got, line)
			}
			if got := strings.Join(got, " | "); got != c.want {
				t.Errorf("got  %s\nwant %s\nnotes %v", got, c.want, result.Notes)
			}
			if name == "selectors" && !result.Notes.Has(collect.NoteSkippedEvent) {
				t.Errorf("notes %v", result.Notes)
			}
		})
	}
}
