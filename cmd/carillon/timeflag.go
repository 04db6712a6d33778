package main

import (
	"strconv"
	"strings"
	"time"

	"carillon/eventstore/instant"
)

// timeFlag is a time on the command line: an instant, a date, or how long ago it was.
type timeFlag string

// at returns the time as the API takes it.
func (f timeFlag) at(t terminal) string { return f.text(time.Now(), t.zone()) }

// text returns the time as the API takes it. Dates are those of a zone; an unknown form is left to the server, which
// says what is wrong with it, and also takes the end of a list before.
func (f timeFlag) text(now time.Time, zone *time.Location) string {
	if ago, ok := durationOf(string(f)); ok {
		return instant.Text(now.Add(-ago))
	}
	if day, err := time.ParseInLocation(time.DateOnly, string(f), zone); err == nil {
		return instant.Text(day)
	}
	return string(f)
}

// durationOf reads a duration, which may be in whole days: 7d.
func durationOf(text string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}
