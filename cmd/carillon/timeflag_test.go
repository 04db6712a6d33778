package main

import (
	"testing"
	"time"
)

func TestTimeFlag(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	zone := time.FixedZone("", 5*3600+45*60)
	for given, want := range map[timeFlag]string{
		"":                     "",
		"1h":                   "2026-11-21T11:00:00.000000Z",
		"1h30m":                "2026-11-21T10:30:00.000000Z",
		"7d":                   "2026-11-14T12:00:00.000000Z",
		"2026-11-21":           "2026-11-20T18:15:00.000000Z",
		"2026-11-21T12:00:00Z": "2026-11-21T12:00:00Z",
		"2026-11-21T12:00:00.000000Z~4b1d1f5e-2a3c-5d4e-8f60-718293a4b5c6": "2026-11-21T12:00:00.000000Z~" +
			"4b1d1f5e-2a3c-5d4e-8f60-718293a4b5c6",
		"-1h": "-1h",
		"xd":  "xd",
	} {
		if got := given.text(now, zone); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
}
