package main

import (
	"strings"
	"testing"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
	for _, want := range []string{
		"audit DIFFERS from the log in 3 rows: ",
		"\n  entries destination=" + id + " revision=0 changed: actor is \"key:forged\", expected ",
		"\n  entries destination=" + id + " revision=1 missing\n",
		"\n  entries destination=" + id + " revision=9 added\n",
	} {
		assert.Equal(t, strings.Contains(out, want), true, "the result lacks %q: %s", want, out)
	}
	assert.True(t, code == 1 && strings.Contains(problem, "audit differs from the log"), "exit %d: %s", code, problem)
	code, out, problem = s.run("status")
	assert.True(t, code == 1 && strings.Contains(out, "read model audit: rows that differ from the log: 3, ") &&
		strings.Contains(out, "DIFFERS") && strings.Contains(problem, "differs from the log"),
		"status: exit %d\n%s%s", code, out, problem)
	s.ok("projections", "rebuild", "audit")
	live := s.liveDestination(org).String()
	for _, name := range app.Compared() {
		got := s.ok("projections", "verify", name)
		assert.True(t, strings.Contains(got, " agrees with the log: "), "%v", got)
	}
	if got := s.ok("projections", "verify", "audit", "--sample", "50"); !strings.Contains(got, "a sample of ") {
		t.Error(got)
	}
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
		assert.True(t, strings.Contains(got, want), "%s lacks %q: %s", name, want, got)
	}
	if _, out, _ := s.run("status"); !strings.Contains(out, "process dispatcher: rows that differ from the log: 1, ") {
		t.Errorf("status: %s", out)
	}
}
