package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

func TestHappeningTable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	origin := adminapi.HappeningOrigin{
		SourceID: uuid.MustParse("11111111-1111-4111-8111-111111111111"),
		Page:     "https://hall.example/1",
		Syntax:   "json-ld",
		Path:     "Event.name",
		At:       at,
		Value:    "Concert",
	}
	other := adminapi.HappeningOrigin{
		SourceID: uuid.MustParse("22222222-2222-4222-8222-222222222222"),
		At:       at,
		Value:    "Concert, sold out",
		Stale:    true,
	}
	var text bytes.Buffer
	to := newTable(&text)
	happeningRows(zoned{to, time.UTC}, adminapi.Happening{StaleSince: &at, Fields: []adminapi.HappeningField{
		{
			Field:  "title",
			Value:  "Concert",
			From:   []adminapi.HappeningOrigin{origin},
			Others: []adminapi.HappeningOrigin{other},
		},
		{Field: "start", Value: []string{"2026-12-05T20:00:00+01:00"}},
	}})
	if err := to.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `no source shows it since 2026-11-21T12:00:00Z
FIELD VALUE SOURCE WHERE SINCE
title Concert
 from Concert 11111111 json-ld Event.name https://hall.example/1 2026-11-21T12:00:00Z
 other, not on show Concert, sold out 22222222 2026-11-21T12:00:00Z
start ["2026-12-05T20:00:00+01:00"]
`
	got := regexp.MustCompile(` +\n`).ReplaceAllString(text.String(), "\n")
	if got = regexp.MustCompile(` +`).ReplaceAllString(got, " "); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
