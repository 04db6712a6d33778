package adapters_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/command"
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
// ones. Nothing is published.
func TestNewUIDsAtEachExport(t *testing.T) {
	t.Parallel()
	var exports []string
	for n := 1; n <= 3; n++ {
		data, err := os.ReadFile(filepath.Join("testdata", "new-uids", fmt.Sprintf("export%d.ics", n)))
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
		items   int
		news    int
	}{
		"others' calendar":     {exports, []string{"", ""}, false, 1, 0},
		"others', memory lost": {exports, []string{"", ""}, true, 1, 0},
		"one place for all of them": {[]string{export(1, "Jazz Hall 3"), export(2, "Jazz Hall 3")}, []string{""},
			false, 1, 0},
		"the place is written later": {[]string{export(1, "Jazz - 3"), export(2, "Jazz Hall 3"), export(3, "Jazz Barn 3")},
			[]string{"revised", "revised"}, false, 1, 0},
		"two rooms, the other way round": {
			[]string{export(1, "Quiz Attic 3", "Quiz Cellar 3"), export(2, "Quiz Cellar 3", "Quiz Attic 3")}, []string{""},
			false, 2, 0,
		},
		"one is new": {[]string{export(1, "Jazz - 3", "Quiz - 4"), export(2, "Quiz - 4", "Jazz - 3", "Jazz - 5")},
			[]string{"observed"}, false, 3, 1},
		"another title": {[]string{export(1, "Jazz - 3"), export(2, "Quiz - 3")}, []string{"observed went-stale"},
			false, 2, 1},
		"another start": {[]string{export(1, "Jazz - 3"), export(2, "Jazz - 4")}, []string{"observed went-stale"},
			false, 2, 1},
		"the other is there": {[]string{export(1, "Jazz - 3"), export(1, "Jazz - 3", "Jazz - 3")}, []string{"observed"},
			false, 2, 1},
		"called off meanwhile": {
			[]string{export(1, "Jazz_Night - 3"), export(2, "CANCELLED:_Jazz_Night - 3")}, []string{"revised"}, false, 1, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := walktest.Serve(lasting(t), site.Type, map[string]string{"/all.ics": tt.exports[0]},
				func(f *fetch.Fetcher) collect.Collector {
					return site.New(f, time.Now)
				})
			w := open(t, map[string]collect.Collector{site.Type: s.Collector})
			source, feed := w.source(command.RegisterSource{Type: site.Type, URL: s.URL + "/all.ics"}), w.feed()
			w.attach(feed, source, site.Type)
			w.eventuallyState(source, 1, "ok")
			w.walk(source) // the backfill has ended
			for i, want := range tt.came {
				if tt.lost {
					w.loseWalks()
				}
				s.Set("/all.ics", tt.exports[i+1])
				if got := w.walk(source); got != want {
					t.Errorf("export %d came to %q, want %q", i+2, got, want)
				}
			}
			if again := w.walk(source); again != "" {
				t.Errorf("the same again came to %q", again)
			}
			var evidence int
			if err := w.pool.QueryRow(t.Context(), `SELECT max(cardinality(evidence))
				FROM carillon.source_views`).Scan(&evidence); err != nil || evidence > 3 {
				t.Errorf("a happening is remembered by %d pieces of evidence (%v)", evidence, err)
			}
			w.eventually("all items are there", func() bool { return len(w.recorded("item.added.v1")) >= tt.items })
			w.eventually("new happenings are published", func() bool { return w.publishedAs("event.item.added") >= tt.news })
			if items, news := len(w.recorded("item.added.v1")), w.publishedAs("event.item.added"); items != tt.items ||
				news != tt.news {
				t.Errorf("%d items and %d news, want %d and %d", items, news, tt.items, tt.news)
			}
		})
	}
}
