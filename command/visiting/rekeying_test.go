package visiting_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/site"
)

// export is a calendar with an event for each line, which names title, place and days ahead. Each event has an UID
// that no calendar had before.
func export(number int, lines ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i, line := range lines {
		var title, place string
		var days int
		if _, err := fmt.Sscanf(line, "%s %s %d", &title, &place, &days); err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:random-%d-%d-{}\r\nSUMMARY:%s\r\nDTSTART:%s\r\n", number, i,
			strings.ReplaceAll(title, "_", " "),
			theHour.Add(time.Duration(days)*aDay).Format("20060102T150405Z"))
		if place != "-" {
			fmt.Fprintf(&b, "LOCATION:%s\r\n", strings.ReplaceAll(place, "_", " "))
		}
		b.WriteString("END:VEVENT\r\n")
	}
	return b.String() + "END:VCALENDAR\r\n"
}

// A calendar that invents UIDs at each export shows the same events: the missing ones have title and start of the new
// ones.
func TestNewUIDsAtEachExport(t *testing.T) {
	t.Parallel()
	var exports []string
	for n := 1; n <= 3; n++ {
		data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("export%d.ics", n)))
		if err != nil {
			t.Fatal(err)
		}
		exports = append(exports, strings.NewReplacer("20261129", theHour.Add(3*aDay).Format("20060102"), "UID:", "UID:{}").
			Replace(string(data)))
	}
	for name, tt := range map[string]struct {
		exports []string
		came    []string // of the second, the third and so on
		lost    bool     // the memory of walks, before each
	}{
		"others' calendar":          {exports, []string{"", ""}, false},
		"others', memory lost":      {exports, []string{"", ""}, true},
		"one place for all of them": {[]string{export(1, "Jazz Hall 3"), export(2, "Jazz Hall 3")}, []string{""}, false},
		"the place is written later": {[]string{export(1, "Jazz - 3"), export(2, "Jazz Hall 3"), export(3, "Jazz Barn 3")},
			[]string{"revised", "revised"}, false},
		"two rooms, the other way round": {
			[]string{export(1, "Quiz Attic 3", "Quiz Cellar 3"), export(2, "Quiz Cellar 3", "Quiz Attic 3")},
			[]string{""}, false,
		},
		"one is new": {[]string{export(1, "Jazz - 3", "Quiz - 4"), export(2, "Quiz - 4", "Jazz - 3", "Jazz - 5")},
			[]string{"observed"}, false},
		"a longer title": {[]string{export(1, "Krk_Quartet Barn 3"), export(2, "Krk_Quartet_and_friends Barn 3")},
			[]string{"revised"}, false},
		"another title": {[]string{export(1, "Jazz - 3"), export(2, "Quiz - 3")}, []string{"observed went-stale"}, false},
		"another start": {[]string{export(1, "Jazz - 3"), export(2, "Jazz - 4")}, []string{"observed went-stale"}, false},
		"the other is there": {[]string{export(1, "Jazz - 3"), export(1, "Jazz - 3", "Jazz - 3")},
			[]string{"observed"}, false},
		"called off meanwhile": {
			[]string{export(1, "Jazz_Night - 3"), export(2, "CANCELLED:_Jazz_Night - 3")}, []string{"revised"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages := walktest.Serve(t, site.Type, map[string]string{"/all.ics": tt.exports[0]},
				func(f *fetch.Fetcher) collect.Collector { return site.New(f, time.Now) })
			s := begin(t, pages.Source("/all.ics"), pages.Collector)
			s.walk()
			for i, want := range append(tt.came, "") {
				if tt.lost {
					s.walks.Forget()
				}
				pages.Set("/all.ics", tt.exports[min(i+1, len(tt.exports)-1)])
				s.expect(fmt.Sprint("export ", i+2), want)
			}
			if n := s.walks.MaxEvidence(); n > 5 { // two ids and three words
				t.Errorf("a happening is remembered by %d pieces of evidence", n)
			}
		})
	}
}

// A source that earlier builds have walked shows the same events: under the ids that they had, also if two of them are
// one by now.
func TestWalksOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	l, show := &leaflets{}, func(key, title string) leaflet {
		return leaflet{view: []collect.Observation{view(key, title, 0, nil)}}
	}
	l.set("a", show("url:example.org/a", "Krk Quartet"))
	l.set("b", show("url:example.org/b", "Pub quiz"))
	s := l.begin(t)
	s.expect("before", "observed observed")
	for key, title := range map[string]string{"url:example.org/a": "krk quartet", "url:example.org/b": "pub quiz"} {
		id := happening.DeriveID(key)
		s.walks.Evidence(id, id, happening.DeriveID("programme:"+title+"|"+soon.UTC().Format(time.DateOnly)))
	}
	s.expect("after", "")
	l.set("b", show("url:example.org/c", "Pub quiz"))
	s.expect("by another key", "")
	l.set("b", show("url:example.org/c", "Krk Quartet"))
	s.expect("as the other one", "revised")
	s.expect("they stay two", "")
}

const aDay = 24 * time.Hour

// theHour is one for all pages, also of a test that goes on into the next.
var theHour = time.Now().UTC().Truncate(time.Hour)
