package timing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var window = timing.WindowAt(time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC))

func stamp(t *testing.T, text string) timing.Stamp {
	t.Helper()
	s := must.Get(timing.Parse(text, false))(t)
	return s
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	loc := must.Get(time.LoadLocation(name))(t)
	return loc
}

// shown formats spans as "5 20:00-23:00", "6" for a whole day, "7 20:00-" for one without an end; an end on a later
// date has its day.
func shown(spans []timing.Span, loc *time.Location) string {
	var parts []string
	for _, s := range spans {
		start := s.Start.In(loc)
		if s.AllDay {
			end := s.End.In(loc)
			if start.Format("15:04") != "00:00" || end.Format("15:04") != "00:00" || end.AddDate(0, 0, -1).Day() != start.Day() {
				parts = append(parts, "no whole day:")
			}
			parts = append(parts, start.Format("2"))
			continue
		}
		text := start.Format("2 15:04-")
		if s.End != nil {
			layout := "15:04"
			if end := s.End.In(loc); end.Day() != start.Day() {
				layout = "2.15:04"
			}
			text += s.End.In(loc).Format(layout)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " | ")
}

func TestSpans(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, start, end, want string }{ // the end may be a length
		{"start alone", "2027-03-05T20:00", "", "5 20:00-"},
		{"start and end", "2027-03-05T20:00", "2027-03-05T23:00", "5 20:00-23:00"},
		{"duration", "2027-03-05T20:00", "PT90M", "5 20:00-21:30"},
		{"duration of whole days", "2027-03-05", "P3D", "5 | 6 | 7"},
		{"a night is one", "2027-03-05T22:00", "2027-03-06T03:00", "5 22:00-6.03:00"},
		{"a long night is one", "2027-03-05T20:00", "2027-03-06T11:00", "5 20:00-6.11:00"},
		{"a night until midnight", "2027-03-05T20:00", "2027-03-06T00:00", "5 20:00-6.00:00"},
		{"a night with the date of its start", "2027-03-05T22:00", "2027-03-05T03:00", "5 22:00-6.03:00"},
		{"festival nights", "2027-03-05T18:00", "2027-03-08T03:00", "5 18:00-6.03:00 | 6 18:00-7.03:00 | 7 18:00-8.03:00"},
		{"hours of a conference", "2027-03-05T09:00", "2027-03-07T17:00", "5 09:00-17:00 | 6 09:00-17:00 | 7 09:00-17:00"},
		{"from evening to afternoon", "2027-03-05T20:00", "2027-03-07T16:00", "5 20:00-6.00:00 | 6 | 7 00:00-16:00"},
		{"a date", "2027-03-05", "", "5"},
		{"dates, the last one too", "2027-03-05", "2027-03-07", "5 | 6 | 7"},
		{"the same date twice", "2027-03-05", "2027-03-05", "5"},
		{"a time, then a date", "2027-03-05T19:00", "2027-03-06", "5 19:00- | 6 19:00-"},
		{"a time, then the same date", "2027-03-05T19:00", "2027-03-05", "5 19:00-"},
		{"a date, then a time", "2027-03-05", "2027-03-06T17:00", "5 | 6"},
		{"midnights name whole days", "2027-03-05T00:00:00", "", "5"},
		{"the same midnight", "2027-03-05T00:00:00", "2027-03-05T00:00:00", "5"},
		{"to the next midnight", "2027-03-05T00:00:00", "2027-03-07T00:00:00", "5 | 6"},
		{"to a minute before", "2027-03-05T00:00:00", "2027-03-06T23:59:59", "5 | 6"},
		{"midnight and a date", "2027-03-05T00:00:00", "2027-03-06", "5 | 6"},
		{"a party that begins at midnight", "2027-03-05T00:00:00", "2027-03-05T04:00", "5 00:00-04:00"},
		{"the end on a day before", "2027-03-05T20:00", "2027-03-01T23:00", "5 20:00-"},
		{"no time passes", "2027-03-05T20:00", "2027-03-05T20:00", "5 20:00-"},
		{"offsets", "2027-03-05T19:00:00Z", "2027-03-05T21:30:00Z", "5 20:00-22:30"},
		{"only the start has an offset", "2027-03-05T19:00:00Z", "2027-03-05T21:30:00", "5 20:00-22:30"},
		{"midnight UTC is some evening or night", "2027-03-05T00:00:00Z", "", "5 01:00-"},
		{"an end an hour before its start", "2027-03-05T20:00", "2027-03-05T19:00", "5 20:00-"},
		{"local midnight in UTC is a whole day", "2027-03-04T23:00:00Z", "", "5"},
		{"the night that summer time begins", "2027-03-27T22:00", "2027-03-28T04:00", "27 22:00-28.04:00"},
		{"days around it", "2027-03-27", "2027-03-29", "27 | 28 | 29"},
	}
	loc := zone(t, "Europe/Copenhagen")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := timing.Range{Start: stamp(t, tt.start)}
			if length, ok := timing.ParseLength(tt.end); ok {
				r.Length = length
			} else if tt.end != "" {
				end := stamp(t, tt.end)
				r.End = &end
			}
			spans := r.In(loc).Spans(window)
			assert.Equal(t, shown(spans, loc), tt.want, "shown")
			for i, s := range spans {
				assert.True(t, s.Day == i, "day %d counts as %d", i, s.Day)
			}
		})
	}
}

// At the end of summer time 02:30 occurs twice; the stated instant counts.
func TestSpans_repeatedHour(t *testing.T) {
	t.Parallel()
	loc := zone(t, "Europe/Copenhagen")
	for _, text := range []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"} {
		want := must.Get(time.Parse(time.RFC3339, text))(t)
		spans := timing.Range{Start: stamp(t, text)}.In(loc).Spans(window)
		assert.True(t, len(spans) == 1 && spans[0].Start.Equal(want), "%s gives %v", text, spans)
	}
}

func TestSpans_longRange(t *testing.T) {
	t.Parallel()
	tests := []struct{ start, end, first, last string }{
		{"2015-06-13", "2016-01-31", "2015-06-13", "2016-01-31"}, // not that long
		{"2000-01-01", "2099-12-31", "2026-10-01", "2027-12-31"},
		{"2000-01-01", "2026-11-30", "2026-10-01", "2026-11-30"},
		{"2027-12-01", "9999-12-31", "2027-12-01", "2027-12-31"},
		{"2000-01-01", "2010-12-31", "2010-12-31", "2010-12-31"},
		{"2090-01-01", "2099-12-31", "2090-01-01", "2090-01-01"},
	}
	for _, tt := range tests {
		end := stamp(t, tt.end)
		spans := timing.Range{Start: stamp(t, tt.start), End: &end}.In(time.UTC).Spans(window)
		first, last := spans[0].Start.Format(time.DateOnly), spans[len(spans)-1].Start.Format(time.DateOnly)
		assert.True(t, first == tt.first && last == tt.last, "%s to %s gives %s to %s", tt.start, tt.end, first, last)
	}
}

func TestWindowMovesOnceAMonth(t *testing.T) {
	t.Parallel()
	at := func(m time.Month, d int) timing.Window {
		return timing.WindowAt(time.Date(2026, m, d, 23, 59, 0, 0, time.UTC))
	}
	assert.True(t, at(11, 1) == at(11, 30) && at(11, 30) != at(12, 1) && at(11, 1).Key() != at(12, 1).Key(),
		"the window moves within a month, or not with it")
	if w := at(11, 1); w.From.Format(time.DateOnly) != "2026-10-01" || w.To.Format(time.DateOnly) != "2028-01-01" {
		t.Errorf("window is %s to %s", w.From, w.To)
	}
}

func TestHours(t *testing.T) {
	t.Parallel()
	h := timing.Hours{}
	h.AddText("Tu-Th 10:00-17:00")
	h.AddText("Fr 10:00-12:00")
	h.AddText("Fr 14:00-20:00")
	h.AddText("Sa,Su 11:00 – 00:00")
	h.AddText("by appointment")
	end := stamp(t, "2027-03-08")
	spans := timing.Range{Start: stamp(t, "2027-03-03"), End: &end}.In(time.UTC).Spans(window) // a Wednesday
	want := "3 10:00-17:00 | 4 10:00-17:00 | 5 10:00-20:00 | 6 11:00-7.00:00 | 7 11:00-8.00:00"
	assert.Equal(t, shown(h.Apply(spans, time.UTC), time.UTC), want, "shown")
	monday := timing.Range{Start: stamp(t, "2027-03-08")}.In(time.UTC).Spans(window)
	assert.Equal(t, shown(h.Apply(monday, time.UTC), time.UTC), "8", "a day when closed is all there is, and")
	timed := timing.Range{Start: stamp(t, "2027-03-08T19:00")}.In(time.UTC).Spans(window)
	assert.Equal(t, shown(h.Apply(timed, time.UTC), time.UTC), "8 19:00-", "a stated time gives way to opening hours")
}

func TestWords(t *testing.T) {
	t.Parallel()
	loc := zone(t, "Europe/Copenhagen")
	type dates [][2]string
	weekly := make(dates, 0, 5)
	for i := range 5 {
		d := time.Date(2027, 3, 3+7*i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
		weekly = append(weekly, [2]string{d + "T19:00", d + "T20:00"})
	}
	tests := []struct {
		dates dates
		want  string
	}{
		{nil, ""},
		{dates{{"2027-03-05T20:00", ""}}, "Fri 5 Mar 2027, 20:00"},
		{dates{{"2027-03-05T19:00Z", "2027-03-05T22:00Z"}}, "Fri 5 Mar 2027, 20:00–23:00"},
		{dates{{"2027-03-05", ""}}, "Fri 5 Mar 2027"},
		{dates{{"2027-03-05", "2027-03-07"}}, "5–7 Mar 2027"},
		{dates{{"2027-03-05T09:00", "2027-04-07T17:00"}}, "5 Mar – 7 Apr 2027, 09:00–17:00"},
		{dates{{"2026-12-05", "2027-01-07"}}, "5 Dec 2026 – 7 Jan 2027"},
		{dates{{"2027-03-05T20:00", "2027-03-07T16:00"}}, "5 Mar 2027, 20:00 – 7 Mar 2027, 16:00"},
		{dates{{"2027-03-05T14:00", ""}, {"2027-03-05T20:00", ""}}, "Fri 5 Mar 2027, 14:00; Fri 5 Mar 2027, 20:00"},
		{weekly, "Wednesdays, 19:00–20:00, 3–31 Mar 2027"},
		{append(weekly[:4:4], dates{{"2027-04-30T19:00", ""}}...), "5 dates, 3 Mar – 30 Apr 2027"},
	}
	for _, tt := range tests {
		var instances [][]timing.Span
		for _, d := range tt.dates {
			r := timing.Range{Start: stamp(t, d[0])}
			if d[1] != "" {
				end := stamp(t, d[1])
				r.End = &end
			}
			instances = append(instances, r.In(loc).Spans(window))
		}
		if got := timing.Words(instances, loc); got != tt.want {
			t.Errorf("%s: got %q, want %q", fmt.Sprint(tt.dates), got, tt.want)
		}
	}
}

// TestClockChanges covers the nights of clock changes: no end is lost, and none precedes its start.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	berlin := zone(t, "Europe/Berlin")
	for _, c := range []struct{ name, start, end, length, want string }{
		{"end in the gap", "2026-03-29T01:30", "2026-03-29T02:30", "", "00:30/01:30"},
		{"start in the gap, end at its end", "2026-03-29T02:00", "2026-03-29T03:00", "", "01:00/02:00"},
		{"start in the gap, end after it", "2026-03-29T02:30", "2026-03-29T03:00", "", "01:30/02:00"},
		{"start in the gap, end later", "2026-03-29T02:30", "2026-03-29T05:00", "", "01:30/03:00"},
		{"both in the gap", "2026-03-29T02:15", "2026-03-29T02:45", "", "01:15/01:45"},
		{"length from the gap", "2026-03-29T02:30", "", "PT1H", "01:30/02:30"},
		{"length over the gap", "2026-03-29T01:30", "", "PT1H", "00:30/01:30"},
		{"a day over the gap", "2026-03-28T20:00", "", "P1D", "19:00/23:00 23:00/18:00"},
		{"a night over the gap", "2026-03-28T22:00", "2026-03-29T04:00", "", "21:00/02:00"},
		{"a night that ends in the gap", "2026-03-28T22:00", "2026-03-29T02:30", "", "21:00/01:30"},
		{"the hour that comes twice, by its length", "2026-10-25T02:30", "", "PT1H", "00:30/01:30"},
		{"from the first to the second", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", "", "00:30/01:30"},
		{"from the first to earlier in the second", "2026-10-25T02:30:00+02:00", "2026-10-25T02:15:00+01:00", "",
			"00:30/01:15"},
		{"from the clock to the second", "2026-10-25T02:30", "2026-10-25T01:15:00Z", "", "00:30/01:15"},
		{"the second alone", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00", "", "01:30/02:00"},
		{"over both", "2026-10-25T01:30", "2026-10-25T03:30", "", "23:30/02:30"},
		{"the same date for both", "2026-10-24T22:00", "2026-10-24T02:30", "", "20:00/00:30"},
	} {
		r := timing.Range{Start: stamp(t, c.start)}
		if c.end != "" {
			end := stamp(t, c.end)
			r.End = &end
		}
		if c.length != "" {
			r.Length, _ = timing.ParseLength(c.length)
		}
		spans := r.In(berlin).Spans(window)
		got := ""
		for i, s := range spans {
			if i > 0 {
				got += " "
			}
			if got += s.Start.UTC().Format("15:04"); s.End != nil {
				got += "/" + s.End.UTC().Format("15:04")
			}
		}
		assert.Equal(t, got, c.want, "%s", c.name)
	}
}

// A time without an offset that is anchored in its zone is the same instant in others; a date stays a date.
func TestAnchor(t *testing.T) {
	t.Parallel()
	rome, tokyo := zone(t, "Europe/Rome"), zone(t, "Asia/Tokyo")
	end := stamp(t, "2026-12-06")
	r := timing.Range{Start: stamp(t, "2026-12-05T20:00"), End: &end}.Anchor(rome)
	want := time.Date(2026, 12, 5, 20, 0, 0, 0, rome)
	assert.True(t, r.Start.In(tokyo).Equal(want), "starts at %v, want %v", r.Start.In(tokyo), want)
	assert.Equal(t, *r.End, end, "it ends on")
}
