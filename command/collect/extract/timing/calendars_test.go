package timing_test

import (
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
)

func TestParseOtherCalendars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"٢٠٢٦-٠٣-٠٥T19:00:00+03:00": "2026-03-05",
		"२०२६-०३-०५":                "2026-03-05",
		"２０２６年３月５日 19:00":           "2026-03-05",
		"2569-03-05T19:00:00+07:00": "2026-03-05", // Buddhist era
		"05/03/2569":                "2026-03-05",
		"۱۴۰۴/۱۲/۱۴":                "2026-03-05", // Persian
		"1403-12-30":                "2025-03-20", // of a leap year
		"1405-01-01":                "2026-03-21",
		"令和8年3月5日":                  "2026-03-05",
		"令和元年5月1日":                  "2019-05-01",
		"民國115年3月5日":                "2026-03-05",
	} {
		s, err := timing.Parse(text, false)
		if got := s.Wall.Format(time.DateOnly); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", text, got, err, want)
		}
	}
}
