package timing_test

import (
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
)

// FuzzParse shows that a parsed date is valid, and that its standard form parses to the same day.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"2026-12-05T20:00+01:00", "Samstag, 5. Dezember 2026 um 20 Uhr", "Mar 5 2026", "2026年12月5日（土）19:30", "2026-339",
		"05.12.2026 8 p.m.", "1753117200", "2019-9-13T10-10-30-00", "Monday, July 21st, 2025 at 7 pm",
	} {
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, monthFirst bool) {
		s, err := timing.Parse(text, monthFirst)
		if err != nil {
			return
		}
		if y := s.Wall.Year(); y < 1000 || y > 10_000 || s.Wall.Location() != time.UTC || s.HasOffset && !s.HasTime {
			t.Fatalf("%q is %+v", text, s)
		}
		if s.Wall.Year() > 9999 {
			return
		}
		again, err := timing.Parse(s.Wall.Format(time.DateOnly), monthFirst)
		if err != nil || !again.Wall.Equal(s.Wall.Truncate(24*time.Hour)) {
			t.Fatalf("%q is %v, and that is %v, %v", text, s.Wall, again.Wall, err)
		}
	})
}
