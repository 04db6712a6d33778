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
		assert.Equal(t, got, want, "%q", text)
	}
	assert.Equal(t, must.Get(timing.Parse("3/4/2025", true))(t).Wall.Month(), time.March, "month first")
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
		got, _, ok := timing.ParseTime(text)
		assert.True(t, ok && got == want, "%q is %s, %v", text, got, ok)
	}
	for _, text := range []string{"", "noon", "25:00", "19:60", "24:01"} {
		got, _, ok := timing.ParseTime(text)
		assert.True(t, !ok, "%q is %s", text, got)
	}
}

func TestParseLength(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]timing.Length{
		"PT90M": {Clock: 90 * time.Minute}, "P2W": {Weeks: 2}, "p1dt2h": {Days: 1, Clock: 2 * time.Hour},
		"P1Y2M": {Years: 1, Months: 2},
	} {
		got, ok := timing.ParseLength(text)
		assert.True(t, ok && got == want, "%q is %+v, %v", text, got, ok)
	}
	for _, text := range []string{"", "P", "PT", "PT0S", "-PT1H", "90 minutes", "P99999999999Y"} {
		got, ok := timing.ParseLength(text)
		assert.True(t, !ok, "%q is %+v", text, got)
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
		got := s.Wall.Format(time.DateOnly)
		assert.True(t, err == nil && got == want, "%s is %s, %v; want %s", text, got, err, want)
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
		must.True(t, err == nil && again.Wall.Equal(s.Wall.Truncate(24*time.Hour)),
			"%q is %v, and that is %v, %v", text, s.Wall, again.Wall, err)
	})
}

// TestZoneNames covers the names of zones as calendars write them.
func TestZoneNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Europe/Berlin": "Europe/Berlin", "GMT": "GMT", "Egypt": "Egypt", "Etc/GMT-1": "Etc/GMT-1", "EST5EDT": "EST5EDT",
		"europe/berlin": "Europe/Berlin", "AMERICA/NEW_YORK": "America/New_York", "America/New York": "America/New_York",
		"utc":                    "UTC",
		"america/port-au-prince": "America/Port-au-Prince", "/mozilla.org/20070129_1/europe/zurich": "Europe/Zurich",
		"tzone://Microsoft/Utc": "UTC", "US-Eastern": "US/Eastern", `Europe\/Paris`: "Europe/Paris",
		`"Asia/Tokyo"`: "Asia/Tokyo", "W. Europe Standard Time": "Europe/Berlin", "w. europe standard time": "Europe/Berlin",
		"W Europe Standard Time":  "Europe/Berlin",
		"W. Europe Daylight Time": "Europe/Berlin", "Eastern": "America/New_York",
		"Pacific Standard Time (Mexico)": "America/Tijuana",
		"W. Europe Standard Time 1":      "Europe/Berlin", "Europe/Berlin 2": "Europe/Berlin",
		"Europe/Berlin-1":   "Europe/Berlin",
		"Europe/Berlin (1)": "Europe/Berlin", "Europe/Berlin_12": "Europe/Berlin", "Romance Standard Time#2": "Europe/Paris",
		"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna":      "Europe/Berlin",
		`(UTC+01:00) Amsterdam\, Berlin\, Bern\, Rome\, Stockholm\, Vienna`: "Europe/Berlin",
		"(GMT+01.00) Sarajevo/Warsaw/Zagreb":                                "Europe/Warsaw",
		"(GMT-05:00) Eastern Time (US & Canada)":                            "America/New_York",
		"(GMT-05.00) Eastern Time (US & Canada) 1":                          "America/New_York",
		"Eastern Time (US &amp; Canada)":                                    "America/New_York",
		"(GMT) Greenwich Mean Time : Dublin, Edinburgh, Lisbon, London":     "Europe/London",
		"(UTC+00:00) Dublin, Edinburgh, Lisbon, London":                     "Europe/London",
		"(UTC) Coordinated Universal Time":                                  "Etc/UTC",
		"(UTC-03:30) Newfoundland":                                          "America/St_Johns",
		"(UTC+05:30) Chennai, Kolkata, Mumbai, New Delhi":                   "Asia/Kolkata",
		"(GMT+01:00) Europe/Madrid":                                         "Europe/Madrid",
		"Greenwich Mean Time; Dublin, Edinburgh, London":                    "Europe/London",
		"GMT -0500 (Standard) / GMT -0400 (Daylight)":                       "America/New_York",
		"GMT +0100 (Standard) / GMT +0200 (Daylight)":                       "Europe/Berlin",
		"Mars/Base": "", "Nowhere/At-All": "", "": "", "Local": "", "Custom": "", "1": "", strings.Repeat("x", 300): "",
		"(GMT+01:00)": "", "UTC+02:00": "", "+02:00": "", "(GMT+01:00) My office": "",
	} {
		loc, name := timing.FindZone(text)
		assert.True(t, name == want && (loc == nil) == (want == ""), "%q is %q (%v), want %q", text, name, loc, want)
	}
}

func TestZoneGuesses(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	for text, want := range map[string]struct {
		offset float64
		name   string
		exact  bool
	}{
		"(GMT+01:00)": {1, "", true}, "UTC+02:00": {2, "", true}, "GMT+1": {1, "", true}, "UTC-5": {-5, "", true},
		"+0530":  {5.5, "", true},
		"-03:30": {-3.5, "", true}, "UTC+11": {11, "", true}, "UTC+12": {12, "", true}, "UTC-02": {-2, "", true},
		"utc +2": {2, "", true}, "(UTC)": {0, "", true}, "GMT−05:00": {-5, "", true}, "UTC±00:00": {0, "", true},
		"Z": {0, "", true}, "(GMT+01:00) My office": {1, "", false}, "[UTC+01:00]": {1, "", true}, "GMT+01:00 Our office": {1,
			"", false},
		"UTC+01:00 Berlin": {2, "Europe/Berlin", true}, "(UTC-10.00) Base": {-10, "", false}, "GMT+0200": {2, "", true},
		"Berlin": {2, "Europe/Berlin", true}, "new york": {-4, "America/New_York", true}, "CEST": {2, "Europe/Berlin", true},
		"(GMT-08:00) Tijuana": {-7, "America/Tijuana", true}, "PDT": {-7, "America/Los_Angeles", true},
		"(GMT+02:00) Athen, Bukarest, Sofia": {3, "Europe/Sofia", true},
	} {
		loc, name, exact := timing.GuessZone(text)
		if loc == nil {
			t.Errorf("%q is no zone", text)
			continue
		}
		if _, offset := at.In(loc).Zone(); offset != int(want.offset*3600) || name != want.name || exact != want.exact {
			t.Errorf("%q is %q, %d, %v, want %+v", text, name, offset, exact, want)
		}
	}
	for _, text := range []string{"", "Mars", "UTC+25", "25", "2026", "GMT+01:00 / GMT+02:00"} {
		loc, name, _ := timing.GuessZone(text)
		assert.True(t, loc == nil, "%q is %q, %v", text, name, loc)
	}
}

// TestZoneTablesLoad loads every zone that the tables name.
func TestZoneTablesLoad(t *testing.T) {
	t.Parallel()
	for _, name := range timing.CommonZones() {
		assert.True(t, timing.LoadZone(name) != nil, "no zone %q", name)
	}
	if len(timing.CommonZones()) < 130 {
		t.Errorf("%d zones", len(timing.CommonZones()))
	}
}
