package timing_test

import (
	"fmt"
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // "-" for no date; a wall clock, and an offset if there is one
		"2025-07-21":                                "2025-07-21",
		"20250721":                                  "2025-07-21",
		"2025-7-1":                                  "2025-07-01",
		"2025/07/21":                                "2025-07-21",
		"2025.07.21":                                "2025-07-21",
		"2025-07-21T19:00":                          "2025-07-21 19:00:00",
		"2025-07-21 19:00:30":                       "2025-07-21 19:00:30",
		"2025-07-21T19":                             "2025-07-21 19:00:00",
		"2025-07-21T19:00Z":                         "2025-07-21 19:00:00 +0",
		"2025-07-21T19:00-05:00":                    "2025-07-21 19:00:00 -18000",
		"2015-10-31T19:30:00-0400":                  "2015-10-31 19:30:00 -14400",
		"2025-07-21T19:00:00.000+02":                "2025-07-21 19:00:00 +7200",
		"2025-07-21T19:00:00 +0530":                 "2025-07-21 19:00:00 +19800",
		"2025-07-21T19:00:00,5−03:00":               "2025-07-21 19:00:00 -10800",
		"20250721T190000Z":                          "2025-07-21 19:00:00 +0",
		"2025-07-21T1930-0500":                      "2025-07-21 19:30:00 -18000",
		"2025-07-21T19-05:00":                       "2025-07-21 19:00:00 -18000",
		"2025-07-21T19:00+02:00[Europe/Berlin]":     "2025-07-21 19:00:00 +7200",
		"2025-07-21T7:30 PM":                        "2025-07-21 19:30:00",
		"2025-07-21 12:15 a.m.":                     "2025-07-21 00:15:00",
		"2025-07-21T24:00":                          "2025-07-22 00:00:00",
		"2025-07-21 20h30":                          "2025-07-21 20:30:00",
		"2019-9-13T10-10-30-00":                     "2019-09-13 10:30:00",
		"2019-9-20T08-08-05-00":                     "2019-09-20 08:05:00",
		"2019-9-13T10-30-00":                        "2019-09-13 10:30:00",
		"2025-07-21Z":                               "2025-07-21",
		"2025-07-21+02:00":                          "2025-07-21",
		"2025-07-21 TBA":                            "2025-07-21",
		"2025-07-21T25:99":                          "2025-07-21",
		"Mon, 21 Jul 2025 19:00:00 +0200":           "2025-07-21 19:00:00 +7200",
		"Mon, 21 Jul 2025 19:00:00 GMT":             "2025-07-21 19:00:00 +0",
		"Monday, July 21st, 2025 at 7 pm":           "2025-07-21 19:00:00",
		"21st of July 2025":                         "2025-07-21",
		"21. July 2025":                             "2025-07-21",
		"May 5 2025":                                "2025-05-05",
		"07/21/2025 7:00 PM":                        "2025-07-21 19:00:00",
		"July 21, 2025 8:00 AM-9:00 AM":             "2025-07-21 08:00:00",
		"2026-5-27T16:30+0:00":                      "2026-05-27 16:30:00",
		"2026-11-07T16:30+0:00":                     "2026-11-07 16:30:00",
		"2026-5-27T16:30+00:00":                     "2026-05-27 16:30:00 +0",
		"21/07/2025":                                "2025-07-21",
		"03.04.2025 20:00":                          "2025-04-03 20:00:00",
		"3/4/2025":                                  "2025-04-03",
		"1753117200":                                "2025-07-21 17:00:00 +0",
		"1753117200000":                             "2025-07-21 17:00:00 +0",
		" \"2025-07-21\" ":                          "2025-07-21",
		"2025-202":                                  "2025-07-21",
		"2025-202T19:00Z":                           "2025-07-21 19:00:00 +0",
		"2025-366":                                  "-",
		"Samstag, 5. Dezember 2026 um 20 Uhr":       "2026-12-05 20:00:00",
		"Sa., 5.12.2026, 20:00 Uhr":                 "2026-12-05 20:00:00",
		"5. März 2027":                              "2027-03-05",
		"samedi 5 décembre 2026 à 20h30":            "2026-12-05 20:30:00",
		"le 1er août 2026":                          "2026-08-01",
		"sábado 5 de diciembre de 2026 a las 20:00": "2026-12-05 20:00:00",
		"sabato 5 dicembre 2026 alle ore 21":        "2026-12-05 21:00:00",
		"sábado, 5 de dezembro de 2026 às 20h":      "2026-12-05 20:00:00",
		"zaterdag 5 december 2026 om 20.15 uur":     "2026-12-05 20:15:00",
		"lørdag den 5. december 2026 kl. 20":        "2026-12-05 20:00:00",
		"lördag 5 maj 2026 kl 18.30":                "2026-05-05 18:30:00",
		"lauantai 5. joulukuuta 2026 klo 18":        "2026-12-05 18:00:00",
		"sobota, 5 grudnia 2026 godz. 19:00":        "2026-12-05 19:00:00",
		"sobota 5. prosince 2026 v 19:00":           "2026-12-05 19:00:00",
		"2026年12月5日（土）19:30":                        "2026-12-05 19:30:00",
		"5 Sept. 2026":                              "2026-09-05",
		"5 out 2026":                                "2026-10-05",
		"5 mar 2026":                                "2026-03-05",
		"Mar 5 2026":                                "2026-03-05",
		"mar 5 mai 2026":                            "2026-05-05",
		"5 ju 2026":                                 "-",
		"5 people 2026":                             "-",
		"2025-07":                                   "-",
		"2025":                                      "-",
		"July 2025":                                 "-",
		"":                                          "-",
		"soon":                                      "-",
		"2025-02-30":                                "-",
		"2025-13-01":                                "-",
		"0000-00-00T00:00:00":                       "-",
		"99/99/2025":                                "-",
	}
	for text, want := range tests {
		s, err := timing.Parse(text, false)
		got := "-"
		if err == nil {
			got = written(s)
		}
		if got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if s, err := timing.Parse("3/4/2025", true); err != nil || s.Wall.Month() != time.March {
		t.Errorf("month first: %v, %v", s, err)
	}
}

// written formats a stamp as in the table above.
func written(s timing.Stamp) string {
	layout := time.DateOnly
	if s.HasTime {
		layout = time.DateTime
	}
	text := s.Wall.Format(layout)
	if s.HasOffset {
		text += fmt.Sprintf(" %+d", s.Offset)
	}
	return text
}

func TestParseClock(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"19:00:00": 19 * time.Hour, "T19:30": 19*time.Hour + 30*time.Minute, "7:30 PM": 19*time.Hour + 30*time.Minute,
		"1930": 19*time.Hour + 30*time.Minute, "9": 9 * time.Hour, "12 am": 0, "24:00": 24 * time.Hour,
	} {
		if got, ok := timing.ParseClock(text); !ok || got != want {
			t.Errorf("%q is %s, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "noon", "25:00", "19:60", "24:01"} {
		if got, ok := timing.ParseClock(text); ok {
			t.Errorf("%q is %s", text, got)
		}
	}
}

func TestParseLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]timing.Length{
		"PT90M": {Clock: 90 * time.Minute}, "P2W": {Weeks: 2}, "p1dt2h": {Days: 1, Clock: 2 * time.Hour},
		"P1Y2M": {Years: 1, Months: 2},
	} {
		if got, ok := timing.ParseLength(text); !ok || got != want {
			t.Errorf("%q is %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "P", "PT", "PT0S", "-PT1H", "90 minutes", "P99999999999Y"} {
		if got, ok := timing.ParseLength(text); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

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
