package structured_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// listOf returns a page with a heading and three rows of a format with their dates.
func listOf(heading, row string, dates ...string) string {
	var b strings.Builder
	for i, date := range dates {
		fmt.Fprintf(&b, row, date, i)
	}
	return "<html lang='en'><body><h2>" + heading + "</h2><div>" + b.String() + "</div></body></html>"
}

// Lists without markup are read if they speak of events and one of their dates is ahead.
func TestListsWithoutMarkup(t *testing.T) {
	t.Parallel()
	const li = `<li>%s <a href="/e/%d">Folk night</a></li>`
	const want = "Folk night 2026-12-05T20:00 | Folk night 2027-01-09T20:00 | Folk night 2027-02-06T20:00"
	times := []string{"5 December 2026, 8pm", "9 January 2027, 8pm", "6 February 2027, 8pm"}
	manyDays := strings.Repeat("5 December, 9 January, 6 February, ", 5)
	for name, c := range map[string]struct{ page, want string }{
		"items with links": {listOf("Events", li, times...), want},
		"without a heading": {
			listOf("", `<li>%s <a href="/e/%d">Folk night</a>, Fox Inn</li>`, times...), want,
		},
		"without a year, in order": {listOf("Events", li, "Sat 5 December, 8pm", "Sat 9 January, 8pm",
			"Sat 6 February, 8pm"), want},
		"headings": {
			listOf("What's on", `<div><h3>Folk night</h3><p>%s</p><a href="/e/%d">Read more</a></div>`, times...), want,
		},
		"a date in several elements": {listOf("Events", `<li><b>%s</b><a href="/e/%d">Folk night</a></li>`,
			"<i>5</i> <i>December</i> <i>2026</i><br>8pm", "<i>9</i> <i>January</i> <i>2027</i><br>8pm",
			"<i>6</i> <i>February</i> <i>2027</i><br>8pm"), want},
		"a column of titles": {
			"<table><tr><th>Date</th><th>Event</th><th>Papers</th></tr>" + listOf("", "<tr><td>%s</td><td>Folk night</td>"+
				`<td><a href="/%d.pdf">Programme</a></td></tr>`, times...)[len("<html lang='en'><body><h2></h2><div>"):], want,
		},
		"a line below the title": {
			listOf("What's on", `<div><h3>Folk night<small>for all ages</small></h3><p>%s</p><a href="/e/%d">More</a></div>`,
				times...), strings.ReplaceAll(want, "night ", "night for all ages "),
		},
		"terms of office": {
			"<h2>Events</h2><table><tr><th>Name</th><th>Term ends</th></tr>" + listOf("", `<tr><td><a href="/%[2]d">Ann Ball`+
				`</a></td><td>%[1]s</td></tr>`, times...)[len("<html lang='en'><body><h2></h2><div>"):], "",
		},
		"documents": {listOf("Events", `<li><h3><small>File pdf</small>Minutes</h3>%s <a href="/%d.pdf">It</a></li>`,
			times...), ""},
		"one row is over": {listOf("Events", li, "1 May 2026", "9 January 2027, 8pm", "6 February 2027, 8pm"),
			want[len("Folk night 2026-12-05T20:00 | "):]},
		"beside many days": {
			listOf("Events", li, times[0], manyDays, manyDays), want[:len("Folk night 2026-12-05T20:00")],
		},
		"no year there":     {listOf("Events", li, "5 December, 8pm", manyDays, manyDays), ""},
		"two rows":          {listOf("Events", li, times[:2]...), ""},
		"around the text":   {"<nav>" + listOf("Events", li, times...) + "</nav>", ""},
		"an archive":        {listOf("Events", li, "5 December 2025", "9 January 2026", "6 February 2026"), ""},
		"an archive, years": {listOf("Events", li, "Thu 20 November", "Thu 5 February", "Mon 2 February"), ""},
		"this month only":   {listOf("Events", li, "20 November 2026", "21 November 2026", "22 November 2026"), ""},
		"news":              {listOf("News", `<li>%s <a href="/e/%d">New roof</a></li>`, times...), ""},
		"no events": {listOf("Board", `<li><a href="/p/%[2]d">Ann Hall</a>, until %[1]s</li>`, "1 January 2027",
			"1 January 2028", "1 January 2028"), ""},
		"deadlines": {listOf("Grants", `<li><a href="/p/%[2]d">Garden grant</a>: apply by %[1]s</li>`, times...), ""},
		"a time in two lines": {listOf("Events", `<li>%s <a href="/e/%d">Folk night</a></li>`,
			"5 December 2026<br>8:00<br>PM", "9 January 2027<br>8:00<br>PM", "6 February 2027<br>8:00<br>PM"), want},
		"posts about dates": {listOf("Events", `<li>%s <a href="/e/%d">Notes of the meeting on 3 May 2026</a></li>`,
			times...), ""},
		"words of labels": {listOf("Meetings", `<li>%s <a href="/p/%d">2026 Agenda &amp; Minutes (amended)</a></li>`,
			times...), ""},
		"labels": {listOf("Meetings", `<li>%s <a href="/p/%d">Agenda</a></li>`, times...), ""},
		"several links": {listOf("Events", `<li>%s <a href="/e/%[2]d">Folk</a> <a href="/f/%[2]d">Music</a></li>`,
			times...), ""},
		"several dates": {listOf("Events", `<li>%[1]s, 1 March 2027 <a href="/e/%[2]d">Folk night</a> till 4 April 2027</li>`,
			times...), ""},
		"markup beside it": {listOf("Events", li, times...) + jsonld(`"startDate":"2026-12-01"`), "Course 2026-12-01T00:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, o := range read(t, "https://x.example/events", "UTC", c.page).Observations {
				for _, i := range o.Details.Instances {
					got = append(got, o.Details.Title+" "+i.Occurrences[0].Start.Format("2006-01-02T15:04"))
				}
			}
			assert.Equal(t, strings.Join(got, " | "), c.want, "Join")
		})
	}
}

// Of long lists the first rows are read, and a note says so.
func TestLongListWithoutMarkup(t *testing.T) {
	t.Parallel()
	dates := slices.Repeat([]string{"5 December 2026", "9 January 2027"}, 251)
	got := read(t, "https://x.example/events", "UTC", listOf("Events", `<li>%s <a href="/%[2]d">Folk %[2]d</a></li>`,
		dates...))
	n := len(got.Observations)
	assert.True(t, n == 500 && got.Notes.Has(collect.NoteTruncated), "%d found, notes: %v", n, got.Notes)
}

// Each field of an entry says where it comes from. An address that entries share is none of an event.
func TestOriginsOfListEntries(t *testing.T) {
	t.Parallel()
	page := listOf("Events", `<li class="e"><h3>Folk %[2]d</h3> %[1]s <p>Venue: Fox Inn</p> `+
		`<a href="/e/%[2]d">More</a></li>`,
		"Sat 5 December 2026, 8pm", "9 January 2027, 8pm", "6 February 2027, 8pm")
	shared := strings.NewReplacer("/e/0", "/e", "/e/1", "/e", "/e/2", "/e").Replace(page)
	for _, c := range []struct{ page, url string }{{page, "https://x.example/e/0"}, {shared, "https://x.example/events"}} {
		got := read(t, "https://x.example/events", "UTC", c.page)
		assert.True(t, len(got.Notes) == 1 &&
			strings.HasSuffix(got.Notes[0].Text, `--event "body > div > li" --title "h3" name`), "notes: %v", got.Notes)
		must.Equal(t, len(got.Observations), 3, "found")
		assert.Equal(t, got.Observations[0].Details.PrimaryURL, c.url, "at")
		for _, o := range got.Observations[0].Origins {
			want := map[collect.Field]string{
				collect.FieldTitle: "h3 body > div > li.e > h3 Folk 0",
				collect.FieldStart: "text html > body > div > li.e Sat 5 December 2026, 8pm (a time, a weekday, a year, " +
					"\"folk\")",
				collect.FieldLocation: "text html > body > div > li.e Venue: Fox Inn",
				collect.FieldURL:      "a.href body > div > li.e > a https://x.example/e/0",
			}[o.Field]
			if got := o.Path + " " + o.Element + " " + o.Text; c.page == page && !strings.HasSuffix(got, want) ||
				o.Syntax != collect.List {
				t.Errorf("%s: %s, %q, want %q", o.Field, o.Syntax, got, want)
			}
		}
	}
}
