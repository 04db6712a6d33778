package timing_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
)

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
		if name != want || (loc == nil) != (want == "") {
			t.Errorf("%q is %q (%v), want %q", text, name, loc, want)
		}
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
		if loc, name, _ := timing.GuessZone(text); loc != nil {
			t.Errorf("%q is %q, %v", text, name, loc)
		}
	}
}

// TestZoneTablesLoad loads every zone that the tables name.
func TestZoneTablesLoad(t *testing.T) {
	t.Parallel()
	for _, name := range timing.CommonZones() {
		if timing.LoadZone(name) == nil {
			t.Errorf("no zone %q", name)
		}
	}
	if len(timing.CommonZones()) < 130 {
		t.Errorf("%d zones", len(timing.CommonZones()))
	}
}
