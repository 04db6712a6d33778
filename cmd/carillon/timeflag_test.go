package main

import (
	"strings"
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
		"1w":    "2026-11-14T12:00:00.000000Z",
		"1d12h": "2026-11-20T00:00:00.000000Z",
		"1w1d":  "2026-11-13T12:00:00.000000Z",
	} {
		if err := given.Validate(); err != nil {
			t.Errorf("%s: %v", given, err)
		}
		if got := given.text(now, zone); got != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
	for _, wrong := range []string{"-1h", "xd", "1d-1h", "1d1w", "yesterday", "d"} {
		code, _, errors := runIn(t.Context(), "", "events", "list", "--since="+wrong)
		if code != 2 || !strings.Contains(errors, "must be how long ago") {
			t.Errorf("--since %s: exit %d %s", wrong, code, errors)
		}
	}
}
