package main

import (
	"testing"
	"time"

	"carillon/query"
)

func TestBackfillsAreSummedUp(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for want, backfills := range map[string][]query.Backfill{
		"0": nil,
		"5": {{Added: 2, EndedAt: &since}, {Added: 3, EndedAt: &since}},
		"5, 1 of 2 run since 2026-11-21T12:00:00Z": {{Added: 2, EndedAt: &since},
			{Added: 3, Running: true, Since: since}},
	} {
		if got := backfill(zoned{zone: time.UTC}, backfills); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
