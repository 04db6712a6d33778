package console

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

func TestShownPage(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"<h1>Köln</h1>\r\n\t":                   "<h1>Köln</h1>\r\n\t",
		"<h1>\u202egnp\u0085</h1>":              "<h1>⟨U+202E⟩gnp⟨U+0085⟩</h1>",
		"<textarea x>a\u200fb</textarea>\u2067": "<textarea x>a\u200fb</textarea>⟨U+2067⟩",
		"\u202e<textarea>\u202e</textarea>\n":   "⟨U+202E⟩<textarea>\u202e</textarea>\n",
	} {
		assert.Equal(t, shownPage(page), want, "%q", page)
	}
}

func TestEventSpan(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 28, 23, 30, 0, 0, time.UTC)
	later, nextDay := start.Add(15*time.Minute), start.Add(2*time.Hour)
	for _, tt := range []struct {
		zone string
		end  *time.Time
		want string
	}{
		{"Europe/Rome", nil, "Sun 29 Nov 2026, 00:30, Europe/Rome"},
		{"Europe/Rome", &nextDay, "Sun 29 Nov 2026, 00:30 to 02:30, Europe/Rome"},
		{"", &later, "Sat 28 Nov 2026, 23:30 to 23:45, UTC"},
		{"Mars/Olympus", &nextDay, "Sat 28 Nov 2026, 23:30 to Sun 29 Nov 2026, 01:30, UTC"},
		{"Local", &start, "Sat 28 Nov 2026, 23:30, UTC"},
		{"../../etc/passwd", nil, "Sat 28 Nov 2026, 23:30, UTC"},
	} {
		assert.Equal(t, eventSpan(tt.zone, start, tt.end), tt.want, "%s", tt.zone)
	}
}

// Work that panics ends alone: other work begins after it, and the console ends.
func TestWorkers_surviveAPanic(t *testing.T) {
	t.Parallel()
	var w workers
	w.open(t.Context())
	done := 0
	for _, fault := range []bool{true, false} {
		must.Get(w.start(func() (Work, error) { return Work{}, nil }, func(context.Context, Work) {
			if fault {
				panic("planted")
			}
			done++
		}))(t)
		w.running.Wait()
	}
	assert.Equal(t, done, 1, "works were done")
}

// TestTimeLine draws a destination of 100 s: created, rotated at 20 s with an overlap until 60 s, disabled at 50 s,
// deleted at 90 s.
func TestTimeLine(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	first, second := uuid.New(), uuid.New()
	entry := func(seconds int, detail query.AuditDetail) query.AuditEntry {
		return query.AuditEntry{Change: query.Change{Type: "destination.changed", At: at(seconds)}, Detail: detail}
	}
	history := []query.AuditEntry{
		entry(0, query.AuditDetail{Name: "Hook", URL: "https://example.org", Status: "enabled"}),
		entry(0, query.AuditDetail{SecretID: first}),
		entry(20, query.AuditDetail{SecretID: second, Expiring: []uuid.UUID{first}, ExpiresAt: at(60)}),
		entry(50, query.AuditDetail{Status: "disabled"}),
		entry(90, query.AuditDetail{Status: "deleted"}),
	}
	for i := range history {
		history[i].Revision = int64(i)
	}
	line := must.Get(newTimeLine(history, url.Values{"at": {at(55).Format(time.RFC3339)}}, at(100)))(t)
	assert.True(t, line.Past && line.State.Status == "disabled" && line.State.Secrets[0].Active && line.X() == 550 &&
		line.Step == 550, "at 55 s: %+v, %+v", line, line.State)
	spans := func(found []span, want ...span) {
		t.Helper()
		must.Equal(t, len(found), len(want), "%+v", found)
		for i := range want {
			if want[i].Title = found[i].Title; found[i] != want[i] {
				t.Errorf("%d is %+v, want %+v", i, found[i], want[i])
			}
		}
	}
	spans(line.Statuses, span{X: 0, Width: 500, Kind: "enabled"}, span{X: 500, Width: 400, Kind: "disabled"},
		span{X: 900, Width: 100, Kind: "deleted"})
	spans(line.Secrets[0].Spans, span{X: 0, Width: 200, Kind: "signs"}, span{X: 200, Width: 400, Kind: "overlaps"})
	spans(line.Secrets[1].Spans, span{X: 200, Width: 700, Kind: "signs"})

	for moment, want := range map[string]string{"0": "enabled", "499": "enabled", "501": "disabled", "901": "deleted",
		"1000": "deleted"} {
		line, err := newTimeLine(history, url.Values{"moment": {moment}}, at(100))
		assert.True(t, err == nil && line.State != nil && line.State.Status == want && line.Past != (moment == "1000"),
			"at step %s: %+v, %v; want %s", moment, line.State, err, want)
	}
	if line, err := newTimeLine(history, url.Values{"at": {"2020-01-01T00:00:00Z"}}, at(100)); err != nil ||
		line.State != nil {
		t.Errorf("before it was there: %+v, %v", line.State, err)
	}
	for _, bad := range []url.Values{{"at": {"yesterday"}}, {"moment": {"1001"}}, {"moment": {"-1"}}, {"moment": {"x"}}} {
		_, err := newTimeLine(history, bad, at(100))
		assert.True(t, err != nil, "%v is taken", bad)
	}
}
