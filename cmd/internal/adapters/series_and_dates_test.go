package adapters_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/site"
	"carillon/query"
)

// weekly is a calendar with a yoga class that comes back each week, dated is one with an event for each of some times.
func weekly(weeks int) string {
	return "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:series\r\nSUMMARY:Yoga on Quince Street\r\nLOCATION:Anchor House\r\n" +
		"DTSTART:" +
		theHour.Add(aDay).Format("20060102T150405Z") +
		fmt.Sprintf("\r\nRRULE:FREQ=WEEKLY;COUNT=%d\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n", weeks)
}

func dated(form string, starts ...time.Duration) string {
	var b strings.Builder
	for i, in := range starts {
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:single-%d\r\nSUMMARY:Yoga on Quince Street\r\nLOCATION:Anchor House\r\n"+
			"DTSTART:%s\r\nEND:VEVENT\r\n",
			i, theHour.Add(aDay).Add(in).Format(form))
	}
	return "BEGIN:VCALENDAR\r\n" + b.String() + "END:VCALENDAR\r\n"
}

// A series of one source, and its single dates of another one, are one item without duplicate dates, in either order.
// Entries of one source side by side at nearly the same time are two.
func TestSeriesBesideItsSingleDates(t *testing.T) {
	t.Parallel()
	const week, clock, day = 7 * aDay, "20060102T150405Z", "20060102"
	for name, tt := range map[string]struct {
		first, second string
		want          string // occurrences of the items
	}{
		"the series first":      {weekly(4), dated(clock, 0, week, 2*week, 3*week), "[4]"},
		"the dates first":       {dated(clock, 0, week, 2*week, 3*week), weekly(4), "[4]"},
		"one date more":         {dated(clock, 0, week, 2*week), weekly(4), "[4]"},
		"mere days":             {weekly(3), dated(day, 0, week, 2*week), "[3]"},
		"a separate date":       {weekly(2), dated(clock, 0, week, 3*aDay), "[1 2]"},
		"tours and all tours":   {dated(clock, 0, 20*time.Minute), weekly(2), "[1 2]"},
		"two with single dates": {dated(clock, 0, week), dated(clock, 0, week), "[1 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			salt := "UID:" + unique("")
			serve := func(file string) *walktest.Site {
				file = strings.ReplaceAll(file, "UID:", salt)
				return walktest.Serve(lasting(t), site.Type, map[string]string{"/all.ics": file},
					func(f *fetch.Fetcher) collect.Collector {
						return site.New(f, time.Now)
					})
			}
			one, other := serve(tt.first), serve(tt.second)
			w := open(t, map[string]collect.Collector{site.Type: one.Collector})
			feed := w.feed()
			for _, s := range []*walktest.Site{one, other} {
				source := w.source(command.RegisterSource{Type: site.Type, URL: s.URL + "/all.ics", Timezone: "UTC"})
				w.attach(feed, source, site.Type)
				w.eventuallyState(source, 1, "ok")
			}
			w.eventually("the items are "+tt.want, func() bool { return w.occurrences(feed) == tt.want })
			if news := w.publishedAs("event.item.added"); news != 0 {
				t.Errorf("%d webhooks of a backfill", news)
				for _, e := range w.log {
					t.Logf("%s %s %d %.400s", e.Type, e.Stream, e.Revision, e.Data)
				}
			}
		})
	}
}

var totalOccurrences = regexp.MustCompile(`"totalOccurrences": ?(\d+)`)

// occurrences counts those of each item of a feed, the fewest first.
func (w *world) occurrences(feed uuid.UUID) string {
	w.t.Helper()
	now := time.Now()
	page, err := w.queries.Items(w.t.Context(), w.by.Organization, feed, query.ItemsQuery{
		Since:   now.Add(-7 * aDay),
		Until:   now.Add(30 * aDay),
		OrderBy: query.OrderByOccurrence,
		Limit:   100,
		Now:     now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var counts []string
	for _, found := range totalOccurrences.FindAllSubmatch(page.Items, -1) {
		counts = append(counts, string(found[1]))
	}
	slices.Sort(counts)
	return fmt.Sprint(counts)
}
