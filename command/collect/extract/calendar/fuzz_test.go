package calendar_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/timing"
)

// FuzzRead shows that no file makes the reader panic or hang, or leads to an invalid observation.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.ics"))
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, "Europe/Rome")
	}
	for _, lines := range []string{
		"SUMMARY:x\nDTSTART:99991231T235959Z\nDURATION:P99999Y\nRRULE:FREQ=YEARLY;INTERVAL=1000000\n",
		"SUMMARY:x\nDTSTART:00010101\nDTEND:99991231\nRRULE:FREQ=DAILY;BYSETPOS=-1;UNTIL=00010101\nEXRULE:FREQ=WEEKLY\n",
		"SUMMARY:x\nDTSTART;TZID=\"a:b;c\":20261205T240000\nRDATE;VALUE=PERIOD:20261206T000000/PT1H,20261207/20261206\n" +
			"EXDATE:,\n",
		"SUMMARY:\xff\x00\nDTSTART:20261205T190000-2460\nGEO:NaN;1e400\nORGANIZER;CN=\"^n\":MAILTO:\n",
		"UID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261205\nSUMMARY:x\nDTSTART:20261206T100000Z\nSEQUENCE:-9\n",
	} {
		f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VEVENT\n"+lines+"END:VEVENT\n"), "America/Lord_Howe")
	}
	f.Fuzz(func(t *testing.T, file []byte, timezone string) {
		result, err := calendar.Read(budget.Of(t.Context(), 2_000_000, 8<<20), calendar.Page{
			URL:      &url.URL{Scheme: "https", Host: "a.example", Path: "/x.ics"},
			Text:     string(calendar.Unfold(file)),
			Timezone: timezone,
			Window:   timing.WindowAt(now),
		})
		if err != nil {
			return // too complex for this budget
		}
		keys := map[string]bool{}
		for _, o := range result.Observations {
			if o.Key == "" || keys[o.Key] || o.Details.Title == "" || len(o.Details.Instances) == 0 {
				t.Errorf("%q of key %q (there before: %v) has %d instances", o.Details.Title, o.Key, keys[o.Key],
					len(o.Details.Instances))
			}
			keys[o.Key] = true
			for _, instance := range o.Details.Instances {
				for _, c := range instance.Occurrences {
					if c.End != nil && c.End.Before(c.Start) || c.Start.Year() < 1 || c.Start.Year() > 9999 ||
						c.End != nil && c.End.Year() > 9999 {
						t.Errorf("an occurrence is from %s to %v", c.Start, c.End)
					}
				}
			}
		}
	})
}
