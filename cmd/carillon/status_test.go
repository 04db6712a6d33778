package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// consumersOf returns the consumers that a server reports.
type consumersOf []adminapi.Projection

func (c consumersOf) Status(context.Context) ([]adminapi.Projection, error) {
	if c == nil {
		return nil, errors.New("postgres is away")
	}
	return c, nil
}

func (consumersOf) Verify(context.Context, string, float64) error { return adminapi.ErrNoProjection }

func (consumersOf) Rebuild(context.Context, string) error { return adminapi.ErrNoProjection }

// statusOf asks an admin API for its status.
func statusOf(t *testing.T, consumers consumersOf, ready map[string]error) (code int, out string) {
	t.Helper()
	server := httptest.NewServer(adminapi.New(adminapi.Dependencies{
		Projections: consumers,
		Token:       "hunter2",
		Now:         time.Now,
		Log:         slog.New(slog.DiscardHandler),
		Metrics:     prometheus.NewRegistry(),
		Ready:       func(context.Context) map[string]error { return ready },
	}))
	t.Cleanup(server.Close)
	code, out, _ = runIn(t.Context(), "", "status", "--data-dir", t.TempDir(), "--admin-token", "hunter2",
		"--admin-addr", strings.TrimPrefix(server.URL, "http://"))
	return code, out
}

func TestStatusNamesConsumersWhenNotReady(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		consumers consumersOf
		want      []string
	}{
		"no process runs one": {
			consumersOf{{Name: "items", Kind: "readModel", Process: "alpha:17"}, {Name: "dispatcher", Kind: "process"}},
			[]string{"not ready: projection dispatcher (no process runs it)", "alpha:17", "NOT RUNNING",
				"No process runs dispatcher"},
		},
		"processes unknown": {nil, []string{"not ready: projection dispatcher (no process runs it)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			unready := map[string]error{"projection dispatcher": adminapi.Unready("no process runs it")}
			code, out := statusOf(t, tt.consumers, unready)
			assert.Equal(t, code, 1, "exit")
			for _, want := range tt.want {
				assert.True(t, strings.Contains(out, want), "the answer lacks %q: %s", want, out)
			}
		})
	}
}

// Of hosts with long names, in a log of years and with trouble, no line is longer than a terminal of 100 columns.
func TestStatusFits100Columns(t *testing.T) {
	t.Parallel()
	const host = "carillon-production-europe-north-7d9f8c6b5-x2x4z.internal.example.org:1048576"
	behind := (100 * time.Hour).Seconds() + 1
	consumers := consumersOf{
		{
			Name:     "client_certificates",
			Kind:     "readModel",
			Position: "123456789012/123456789012",
			Head:     "123456789012/123456789012",
			Events:   9_999_999_999,
			Behind:   &behind,
			Process:  host,
			Building: &adminapi.Building{Done: 1_234_567_890, Total: 9_876_543_210},
		},
		{
			Name:    "destination_health",
			Kind:    "process",
			Head:    "123456789012/123456789012",
			Process: host,
			Stopped: "event " + strings.Repeat("0d000000-0000-4000-8000-000000000001 ", 5) + "can't be decoded",
		},
	}
	_, out := statusOf(t, consumers, map[string]error{
		"event store": adminapi.Unready("not reached since " + strings.Repeat("a long time ", 10)),
		"postgres":    adminapi.Unready("its certificate is not trusted"),
	})
	for line := range strings.Lines(out) {
		columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
		assert.True(t, columns <= 100, "%d columns: %s", columns, line)
	}
	for _, want := range []string{"building, 12 %", "100h0m1s", "Run by " + host + ":", "event is at 123456789012"} {
		assert.True(t, strings.Contains(strings.ReplaceAll(out, "\n", " "), want), "the answer lacks %q: %s", want, out)
	}
}

func TestSourceCounts(t *testing.T) {
	t.Parallel()
	for want, states := range map[string]adminapi.SourceStates{
		"no sources":                 {},
		"1 source: 1 paused":         {Total: 1, States: map[string]int{"paused": 1}},
		"3 sources: 1 failing, 2 ok": {Total: 3, States: map[string]int{"ok": 2, "failing": 1}},
	} {
		assert.Equal(t, sourceCounts(states), want, "sourceCounts")
	}
}

// Rows of the audit trail, and of the states of process managers, are changed by hand: each is named. Without a change
// all agree, and a rebuild restores the truth.
func TestVerifyNamesForged(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	org := s.ok("org", "create", "Town hall")
	id := s.destination(org).String()
	s.shows("audit agrees with the log: ", "projections", "verify", "audit")
	must.Get(s.app.Queries.Pool.Exec(t.Context(), `
		UPDATE audit.entries SET actor = 'key:forged' WHERE destination = '`+id+`' AND revision = 0;
		DELETE FROM audit.entries WHERE destination = '`+id+`' AND revision = 1;
		INSERT INTO audit.entries SELECT (jsonb_populate_record(e, '{"revision": 9}')).* FROM audit.entries e
			WHERE destination = '`+id+`' AND revision = 2`))(t)
	code, out, problem := s.run("projections", "verify", "audit")
	s.has(out, "audit DIFFERS from the log in 3 rows: ",
		"\n  entries destination="+id+" revision=0 changed: actor is \"key:forged\", expected ",
		"\n  entries destination="+id+" revision=1 missing\n",
		"\n  entries destination="+id+" revision=9 added\n")
	assert.True(t, code == 1 && strings.Contains(problem, "audit differs from the log"), "exit %d: %s", code, problem)
	code, out, problem = s.run("status")
	assert.True(t, code == 1 && strings.Contains(out, "read model audit: rows that differ from the log: 3, ") &&
		strings.Contains(out, "DIFFERS") && strings.Contains(problem, "differs from the log"),
		"status: exit %d\n%s%s", code, out, problem)
	s.ok("projections", "rebuild", "audit")
	live := s.liveDestination(org).String()
	for _, name := range app.Compared() {
		s.shows(" agrees with the log: ", "projections", "verify", name)
	}
	s.shows("a sample of ", "projections", "verify", "audit", "--sample", "50")
	s.refused("sample must be more than 0", "projections", "verify", "audit", "--sample", "200")
	s.refused("no projection has this name", "projections", "verify", "unknown")
	s.ok("status")
	must.Get(s.app.Queries.Pool.Exec(t.Context(), `
		UPDATE dispatcher.state SET data = '{"organization": "11111111-1111-4111-8111-111111111111", "enabled": true}'
			WHERE kind = 'target' AND id = '`+live+`';
		INSERT INTO destination_health.state VALUES ('notice_address', '`+live+`',
			'{"organization": "11111111-1111-4111-8111-111111111111"}');
		DELETE FROM deletion_cascade.state WHERE kind = 'target'`))(t)
	for name, want := range map[string]string{
		"dispatcher":         "state id=" + live + " kind=target changed\n",
		"destination_health": "state id=" + live + " kind=notice_address added\n",
		"deletion_cascade":   "state id=" + live + " kind=target missing\n",
	} {
		_, got, _ := s.run("projections", "verify", name)
		s.has(got, want)
	}
	_, out, _ = s.run("status")
	s.has(out, "process dispatcher: rows that differ from the log: 1, ")
}
