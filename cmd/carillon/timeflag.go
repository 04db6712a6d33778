package main

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"carillon/eventstore/instant"
)

// timeFlag is a time on the command line: an instant, a date, or how long ago it was.
type timeFlag string

// at returns the time as the API takes it.
func (f timeFlag) at(t terminal) string { return f.text(time.Now(), t.zone()) }

// text returns the time as the API takes it. Dates are those of a zone; what else begins with a date is left to the
// server, which also takes the end of a list before.
func (f timeFlag) text(now time.Time, zone *time.Location) string {
	if ago, ok := durationOf(string(f)); ok {
		return instant.Text(now.Add(-ago))
	}
	if day, err := time.ParseInLocation(time.DateOnly, string(f), zone); err == nil {
		return instant.Text(day)
	}
	return string(f)
}

// Validate refuses what is neither a duration nor begins with a date.
func (f timeFlag) Validate() error {
	text := string(f)
	if _, ok := durationOf(text); ok || text == "" {
		return nil
	}
	if _, err := time.Parse(time.DateOnly, text[:min(len(text), len(time.DateOnly))]); err != nil {
		return fmt.Errorf("must be how long ago (30m, 1d12h, 2w), a date or a time (2026-11-21T12:00:00Z); it is %q", text)
	}
	return nil
}

// longUnits matches the beginning of a duration, in whole weeks and days.
var longUnits = regexp.MustCompile(`^(?:(\d{1,3})w)?(?:(\d{1,4})d)?`)

// durationOf reads a duration, which may have weeks and days: 2w, 7d, 1d12h.
func durationOf(text string) (time.Duration, bool) {
	long := longUnits.FindStringSubmatch(text)
	weeks, _ := strconv.Atoi(long[1])
	days, _ := strconv.Atoi(long[2])
	whole := time.Duration(7*weeks+days) * 24 * time.Hour
	rest := text[len(long[0]):]
	if rest == "" {
		return whole, text != ""
	}
	d, err := time.ParseDuration(rest)
	return whole + d, err == nil && whole+d >= 0 && rest[0] != '-' && rest[0] != '+'
}
