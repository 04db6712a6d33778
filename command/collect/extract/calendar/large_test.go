package calendar_test

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/timing"
)

// events returns a calendar of n events, with numbered lines.
func events(n int, lines string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range n {
		b.WriteString("BEGIN:VEVENT\r\n")
		fmt.Fprintf(&b, lines, i)
		b.WriteString("END:VEVENT\r\n")
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// Of too many events, the window shows as many as possible, with a note about the rest.
func TestLarge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text             string
		events, truncate int // at least this many events, and whether a note reports more
	}{
		"100,000 events": {events(100_000, "UID:%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART:20261205T200000Z\r\n"),
			10_000, 1},
		"100,000 events of once": {events(100_000, "UID:%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART:20161205T200000Z\r\n") +
			events(9, "UID:%[1]d\r\nSUMMARY:New %[1]d\r\nDTSTART:20261205T200000Z\r\n"), 9, 0},
		"10,000 rules": {events(10_000, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20161205T200000Z\r\n"+
			"RRULE:FREQ=DAILY\r\n"), 10_000, 1},
		"every second": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:19700101T200000Z\r\n"+
			"RRULE:FREQ=SECONDLY\r\n"), 1, 1},
		"a count beyond all": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=DAILY;COUNT=2000000000\r\n"), 1, 0},
		"never, and one other": {events(1, "UID:a%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;COUNT=9\r\n") +
			events(1, "UID:b%[1]d\r\nSUMMARY:Other\r\nDTSTART:20240101T200000Z\r\nRRULE:FREQ=WEEKLY;COUNT=500\r\n"), 1, 0},
		"10,000 too hard to follow, and one other": {events(10_000,
			"UID:a%[1]d\r\nSUMMARY:Event\r\nDTSTART:19700101T200000Z\r\nRRULE:FREQ=SECONDLY;BYDAY=MO;COUNT=2000000000\r\n") +
			events(1, "UID:b%[1]d\r\nSUMMARY:Other\r\nDTSTART:20261205T200000Z\r\n"), 1, 1},
		"a position of nothing": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=DAILY;BYSETPOS=300\r\n"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			result := read(t, "", tt.text)
			truncated := 0
			for _, n := range result.Notes {
				if n.Code == collect.NoteTruncated {
					truncated = 1
				}
			}
			if len(result.Observations) < tt.events || truncated != tt.truncate {
				t.Errorf("%d events, truncated %d; want %d and %d", len(result.Observations), truncated, tt.events, tt.truncate)
			}
		})
	}
}

// Of an event with too many instances, those of this month and later are shown.
func TestThisMonthFirst(t *testing.T) {
	t.Parallel()
	result, err := calendar.Read(budget.New(t.Context()), calendar.Page{
		URL:    &url.URL{Scheme: "https", Host: "a.example"},
		Text:   events(1, "SUMMARY:E%d\r\nDTSTART:20160101T000000Z\r\nRRULE:FREQ=MINUTELY\r\n"),
		Window: timing.WindowAt(now),
	})
	if err != nil {
		t.Fatal(err)
	}
	instances := result.Observations[0].Details.Instances
	if first := instances[0].Occurrences[0].Start; first.Before(now.AddDate(0, 0, -now.Day()-1)) || len(instances) < 900 {
		t.Errorf("%d instances from %s on", len(instances), first)
	}
}

func BenchmarkCalendar(b *testing.B) {
	text := events(1000, "UID:r%[1]d\r\nSUMMARY:Rule %[1]d\r\nDTSTART;TZID=Europe/Berlin:20200106T200000\r\n"+
		"DTEND;TZID=Europe/Berlin:20200106T220000\r\nRRULE:FREQ=WEEKLY;BYDAY=MO\r\nLOCATION:Hall %[1]d\\, Street 1\\, "+
		"Berlin\r\n") +
		events(9000, "UID:e%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART;TZID=Europe/Berlin:20261205T200000\r\n"+
			"DTEND;TZID=Europe/Berlin:20261205T220000\r\nDESCRIPTION:Of some length\\, as it may be\\n\\nwith a "+
			"paragraph.\r\nLOCATION:Hall %[1]d\\, Street 1\\, Berlin\r\nURL:https://a.example/e/%[1]d\r\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var before, after runtime.MemStats
	begin := budgettest.ProcessorTime()
	defer func() { b.ReportMetric((budgettest.ProcessorTime()-begin).Seconds()/float64(b.N), "cpu-s/op") }()
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		result, err := calendar.Read(budget.New(b.Context()), calendar.Page{
			URL:      &url.URL{Scheme: "https", Host: "a.example"},
			Text:     text,
			Timezone: "Europe/Berlin",
			Window:   timing.WindowAt(now),
		})
		if err != nil || len(result.Observations) != 10_000 {
			b.Fatal(len(result.Observations), err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB-kept")
		runtime.KeepAlive(result)
	}
}
