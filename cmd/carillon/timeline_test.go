package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/adminapi"
	"carillon/eventstore/storetest/assert"
	"carillon/query"
)

var (
	firstSecret  = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	secondSecret = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	thirdSecret  = uuid.MustParse("55555555-5555-4555-8555-555555555555")
	drawnNoon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func hours(n int) time.Time { return drawnNoon.Add(time.Duration(n) * time.Hour) }

// history numbers entries, and makes the state that follows as the server does.
func history(at time.Time, entries ...query.AuditEntry) adminapi.Audit {
	a := adminapi.Audit{
		Destination:  uuid.MustParse("22222222-2222-4222-8222-222222222222"),
		Organization: uuid.MustParse("11111111-1111-4111-8111-111111111111"), At: at,
	}
	var rows []query.AuditEntry
	for i, e := range entries {
		e.Revision = int64(i)
		a.Entries = append(a.Entries, e)
		rows = append(rows, query.AuditEntry{Revision: e.Revision, Change: e.Change, Detail: e.Detail})
	}
	a.State = query.AuditStateAt(rows, at)
	return a
}

func entry(at time.Time, by string, detail query.AuditDetail) query.AuditEntry {
	return query.AuditEntry{
		Change: query.Change{Type: "destination.changed.v9", At: at, Actor: by},
		Detail: detail,
	}
}

func story() []query.AuditEntry {
	const key = "key:ab12CD34"
	reason := "Maintenance window, announced"
	disabled := entry(hours(30), "operator", query.AuditDetail{Status: "disabled"})
	disabled.Reason = &reason
	return []query.AuditEntry{
		entry(hours(0), key, query.AuditDetail{
			Name:       "CRM",
			URL:        "https://example.org/hook",
			Status:     "enabled",
			HasHeaders: true,
		}),
		entry(hours(0), key, query.AuditDetail{SecretID: firstSecret}),
		entry(hours(2), key, query.AuditDetail{SecretID: secondSecret, Expiring: []uuid.UUID{firstSecret},
			ExpiresAt: hours(26)}),
		entry(hours(3), "destination_health",
			query.AuditDetail{Status: "auto_disabled", StatusReason: "100 consecutive failures"}),
		entry(hours(5), key, query.AuditDetail{
			Name:  "CRM",
			URL:   "https://example.org/new",
			Plain: destination.Plain{DebounceWindowSeconds: 5},
		}),
		entry(hours(5), key, query.AuditDetail{Status: "enabled"}),
		disabled,
		entry(hours(31), key, query.AuditDetail{SecretID: thirdSecret, Expiring: []uuid.UUID{secondSecret},
			ExpiresAt: hours(55)}),
		entry(hours(32), key, query.AuditDetail{Expiring: []uuid.UUID{secondSecret}, ExpiresAt: hours(32)}),
		entry(hours(40), key, query.AuditDetail{Status: "deleted"}),
	}
}

func TestPictureOfAWholeLife(t *testing.T) {
	t.Parallel()
	want := `destination   22222222-2222-4222-8222-222222222222
organization  11111111-1111-4111-8111-111111111111
state at      2026-11-21T22:00:00Z
status        enabled
name          CRM
url           https://example.org/new
debounce      5 s
headers       none of its own
secrets       33333333-3333-4333-8333-333333333333  until 2026-11-22T14:00:00Z
              44444444-4444-4444-8444-444444444444  no end set

WHEN                      CHANGE                              BY
2026-11-21T12:00:00Z █    created "CRM" for https://example.o key:ab12CD34
                     █    rg/hook
2026-11-21T12:00:00Z █ ┬  secret 33333333 begins              key:ab12CD34
2026-11-21T14:00:00Z █ ┊┬ secret 44444444 begins; secret      key:ab12CD34
                     █ ┊│ 33333333 signs until
                     █ ┊│ 2026-11-22T14:00:00Z
2026-11-21T15:00:00Z ▒ ┊│ auto_disabled; 100 consecutive      destination_health
                     ▒ ┊│ failures
2026-11-21T17:00:00Z ▒ ┊│ url: https://example.org/new;       key:ab12CD34
                     ▒ ┊│ debounce: 5 s; headers: none
2026-11-21T17:00:00Z █ ┊│ enabled                             key:ab12CD34
2026-11-21T22:00:00Z █ ┊│ ◀─ the state above ────────────────
2026-11-22T14:00:00Z █ ┴│ secret 33333333 expires: its        time
                     █  │ overlap is over
2026-11-22T18:00:00Z ░  │ disabled; reason: Maintenance       operator
                     ░  │ window, announced
2026-11-22T19:00:00Z ░ ┬┊ secret 55555555 begins; secret      key:ab12CD34
                     ░ │┊ 44444444 signs until
                     ░ │┊ 2026-11-23T19:00:00Z
2026-11-22T20:00:00Z ░ │┴ secret 44444444 is expired at once  key:ab12CD34
2026-11-23T04:00:00Z × ┴  deleted                             key:ab12CD34

` + legend + "\n"
	assert.Same(t, strings.Split(drawAudit(history(hours(10), story()...), time.UTC), "\n"), strings.Split(want, "\n"))
}

func TestSubscriptionsOfAState(t *testing.T) {
	t.Parallel()
	typed, reason := "events", "access lost"
	a := history(hours(1), story()...)
	a.State.Subscriptions = []query.AuditSubscription{
		{
			ID:       firstSecret,
			Answered: subscription.Answered{EventTypes: []string{"concert.*", "talk.*"}, ScopeKind: "all"},
			Active:   true,
		},
		{
			ID:       secondSecret,
			Answered: subscription.Answered{EventTypes: []string{"concert.*"}, FeedType: &typed},
			Reason:   &reason,
		},
		{
			ID: thirdSecret,
			Answered: subscription.Answered{
				EventTypes: []string{"*"},
				Feeds:      []subscription.Pin{{FeedID: firstSecret}, {FeedID: secondSecret}},
			},
		},
	}
	want := `subscriptions 33333333  concert.*, talk.*
              44444444  concert.* of all events feeds; inactive: access lost
              55555555  * of 33333333, 44444444; inactive
`
	got := stateText(a, time.UTC)
	assert.True(t, strings.HasSuffix(got, want), "got\n%s\nwant at its end\n%s", got, want)
}

func TestPictureBeforeAfterAndOfTheFuture(t *testing.T) {
	t.Parallel()
	before := drawAudit(history(hours(-1), story()...), time.UTC)
	assert.True(t, strings.Contains(before, "status        not there yet") &&
		strings.Index(before, "the state above") <= strings.Index(before, "created"), "before it was:\n%s", before)
	after := drawAudit(history(hours(100), story()...), time.UTC)
	assert.True(t, strings.Contains(after, "55555555-5555-4555-8555-555555555555  ended with the destination") &&
		strings.Contains(after, "44444444-4444-4444-8444-444444444444  ended 2026-11-22T20:00:00Z") &&
		strings.Index(after, "the state above") >= strings.Index(after, "deleted    "), "after its end:\n%s", after)
	soon := drawAudit(history(hours(4), story()[:4]...), time.UTC)
	marked, expires := strings.Index(soon, "the state above"), strings.Index(soon, "secret 33333333 expires")
	assert.True(t, marked >= 0 && expires >= marked, "the rest:\n%s", soon)
}

func TestPictureFitsAndCannotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	const key = "a process manager with quite a long name"
	entries := []query.AuditEntry{
		entry(hours(0), key, query.AuditDetail{Name: "\x1b[2J\x1b]0;owned\a" + strings.Repeat("long ", 60),
			URL: "https://example.org/" + strings.Repeat("x", 300), Status: "enabled"}),
	}
	for i := range 10 {
		entries = append(entries, entry(hours(i), key, query.AuditDetail{SecretID: uuid.New()}))
	}
	audit := history(hours(20), entries...)
	shown := query.AuditDetail{Shown: []string{"secrets"}}
	for range 20 {
		shown.ShownSecrets = append(shown.ShownSecrets, uuid.New())
	}
	audit.Disclosures = []query.AuditEntry{entry(hours(3), key, shown)}
	drawn := drawAudit(audit, time.FixedZone("", -9*60*60))
	for _, id := range shown.ShownSecrets {
		assert.True(t, strings.Contains(drawn, short(id)), "the secret %s was shown: %s", id, drawn)
	}
	assert.True(t, !strings.ContainsAny(drawn, "\x1b\a"), "control characters: %q", drawn)
	for line := range strings.SplitSeq(drawn, "\n") {
		if utf8.RuneCountInString(line) > pictureWidth {
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	assert.True(t, strings.Contains(drawn, " █ │││││││││┬ "), "ten secrets at once: %s", drawn)
}
