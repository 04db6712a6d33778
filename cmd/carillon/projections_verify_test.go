package main

import (
	"strings"
	"testing"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
)

// Rows of the audit trail are changed by hand: each is named, and a rebuild restores the truth.
func TestVerifyNamesForgedAudit(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	org := s.ok("org", "create", "Town hall")
	id := s.destination(org).String()
	s.shows("audit agrees with the log: ", "projections", "verify", "audit")
	apitest.Must(s.app.Queries.Pool.Exec(t.Context(), `
		UPDATE audit.entries SET actor = 'key:forged' WHERE destination = '`+id+`' AND revision = 0;
		DELETE FROM audit.entries WHERE destination = '`+id+`' AND revision = 1;
		INSERT INTO audit.entries SELECT (jsonb_populate_record(e, '{"revision": 9}')).* FROM audit.entries e
			WHERE destination = '`+id+`' AND revision = 2`))(t)
	code, out, problem := s.run("projections", "verify", "audit")
	for _, want := range []string{
		"audit DIFFERS from the log in 3 rows: ",
		"\n  entries destination=" + id + " revision=0 changed: actor is \"key:forged\", expected ",
		"\n  entries destination=" + id + " revision=1 missing\n",
		"\n  entries destination=" + id + " revision=9 added\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the result lacks %q:\n%s", want, out)
		}
	}
	if code != 1 || !strings.Contains(problem, "audit differs from the log") {
		t.Errorf("exit %d: %s", code, problem)
	}
	code, out, problem = s.run("status")
	if code != 1 || !strings.Contains(out, "read model audit: rows that differ from the log: 3, ") ||
		!strings.Contains(out, "DIFFERS") || !strings.Contains(problem, "differs from the log") {
		t.Errorf("status: exit %d\n%s%s", code, out, problem)
	}
	s.ok("projections", "rebuild", "audit")
	for _, m := range app.ReadModels() {
		if got := s.ok("projections", "verify", m.Name); !strings.Contains(got, " agrees with the log: ") {
			t.Error(got)
		}
	}
	if got := s.ok("projections", "verify", "audit", "--sample", "50"); !strings.Contains(got, "a sample of ") {
		t.Error(got)
	}
	s.refused("sample must be more than 0", "projections", "verify", "audit", "--sample", "200")
	s.refused("no projection has this name", "projections", "verify", "unknown")
	s.ok("status")
}

// Rows of the states of process managers are changed by hand: each is named. Without the change all agree.
func TestVerifyNamesForgedState(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	id := s.liveDestination(s.ok("org", "create", "Town hall")).String()
	verify := func(name string) string {
		t.Helper()
		_, out, _ := s.run("projections", "verify", name)
		return out
	}
	for _, name := range app.Compared() {
		if got := verify(name); !strings.Contains(got, " agrees with the log: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	apitest.Must(s.app.Queries.Pool.Exec(t.Context(), `
		UPDATE dispatcher.state SET data = '{"organization": "11111111-1111-4111-8111-111111111111", "enabled": true}'
			WHERE kind = 'target' AND id = '`+id+`';
		INSERT INTO destination_health.state VALUES ('notice_address', '`+id+`',
			'{"organization": "11111111-1111-4111-8111-111111111111"}');
		DELETE FROM deletion_cascade.state WHERE kind = 'target'`))(t)
	for name, want := range map[string]string{
		"dispatcher":         "state id=" + id + " kind=target changed\n",
		"destination_health": "state id=" + id + " kind=notice_address added\n",
		"deletion_cascade":   "state id=" + id + " kind=target missing\n",
	} {
		if got := verify(name); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q: %s", name, want, got)
		}
	}
	if _, out, _ := s.run("status"); !strings.Contains(out, "process dispatcher: rows that differ from the log: 1, ") {
		t.Errorf("status: %s", out)
	}
}
