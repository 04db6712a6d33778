package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/destinations"
)

// destination makes one, rotates its secret and deletes it.
func (s shell) destination(org string) uuid.UUID {
	s.Helper()
	id := s.liveDestination(org)
	s.delete(org, id)
	return id
}

func caller(org string) command.Caller {
	return command.Caller{Organization: uuid.MustParse(org), Actor: "key:ab12CD34", RequestID: uuid.New()}
}

// liveDestination creates a destination with two secrets.
func (s shell) liveDestination(org string) uuid.UUID {
	s.Helper()
	created, err := s.app.Commands.CreateDestination(s.Context(), caller(org),
		command.CreateDestination{DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{Name: "CRM", URL: "https://carillon.invalid/hook"},
		}})
	if err == nil {
		_, err = s.app.Commands.RotateSecret(s.Context(), caller(org), command.RotateSecret{Destination: created.ID})
	}
	must.OK(s, err)
	return created.ID
}

func (s shell) delete(org string, id uuid.UUID) {
	s.Helper()
	must.Get(s.app.Commands.DeleteDestination(s.Context(), caller(org), command.DeleteDestination{ID: id}))(s)
}

// Each declared setting of a destination is shown, now and on record.
func TestSettingsAreShown(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	var settings destination.Settings
	for _, d := range destination.Fields {
		if d.Read != nil {
			d.Read(&settings, map[string]string{"numeric": "7", "decimal": "2.5", "checkbox": "on", "": "of-" + d.Name}[d.Input])
		}
	}
	settings.URL = "https://carillon.invalid/hook"
	made := must.Get(s.app.Commands.CreateDestination(t.Context(), caller(org), command.CreateDestination{
		DestinationSettings: command.DestinationSettings{Settings: settings},
	}))(t)
	s.app.Progress.Await(t.Context(), made.Position, destinations.ReadModel.Name, audit.ReadModel.Name)
	for _, args := range [][]string{
		{"destination", "show", made.ID.String(), "--org", org}, {"audit", "destination", made.ID.String()},
	} {
		out := s.ok(args...)
		for label, text := range settings.Texts() {
			assert.True(t, regexp.MustCompile(`(?m)^`+label+` +`+regexp.QuoteMeta(text)+`$`).MatchString(out),
				"carillon %v does not show %s, %s:\n%s", args, label, text, out)
		}
	}
}

// An analyst's login is created, listed and deleted; its name is checked.
func TestAnalystLogin(t *testing.T) {
	t.Parallel()
	s := open(t)
	name := "ana_" + strings.ToLower(rand.Text())
	connection := s.ok("analytics", "login", name)
	conn := must.Get(pgx.Connect(t.Context(), strings.TrimSpace(connection)))(t)
	must.OK(t, conn.Close(t.Context()))
	s.refused("name must be 1 to 63 lowercase", "analytics", "login", "Ana")
	s.shows(name, "analytics", "list")
	s.ok("analytics", "delete", name)
	s.refused("no analyst has this login", "analytics", "delete", name)
}

func TestAuditorsDay(t *testing.T) {
	t.Parallel()
	s := open(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()

	token := s.ok("auditor", "issue", "Court of audit", "--expires-at", "720h")
	parsed, ok := credential.Parse(credential.AuditorToken, token)
	must.True(t, ok, "issued %q", token)
	s.matches(`^`+parsed.ID+` +Court of audit .* valid$`, "auditor", "list")
	asAuditor := func(args ...string) []string { return append(args, "--admin-token", token) }
	picture := s.ok(asAuditor("audit", "destination", id)...)
	s.has(picture, "status        deleted", `created "CRM" for`, " begins", "┬", "◀─ the state above")
	var trail adminapi.Audit
	err := json.Unmarshal([]byte(s.ok(asAuditor("audit", "destination", id, "--json")...)), &trail)
	must.True(t, err == nil && len(trail.Entries) == 4, "audit --json: %d entries, %v", len(trail.Entries), err)
	s.shows("status        enabled", asAuditor("audit", "destination", id, "--at",
		trail.Entries[1].At.Format(time.RFC3339Nano))...)
	code, _, errors := s.run(asAuditor("audit", "destination", id, "--at", "yesterday")...)
	assert.True(t, code == 2 && strings.Contains(errors, "how long ago"), "yesterday: %d, %s", code, errors)
	for _, at := range []string{"1d", "2020-01-01", "2020-01-01T12:00:00Z"} {
		s.shows("not there yet", asAuditor("audit", "destination", id[:13], "--at", at)...)
	}
	s.refused("no destination has or had an id that begins", asAuditor("audit", "destination", "no-such-name")...)
	s.refused("no destination has or had this id", asAuditor("audit", "destination", uuid.NewString())...)
	s.refused("admin token", asAuditor("org", "list")...)
	s.shows("audit ", asAuditor("projections", "status")...)
	s.shows("agrees with the log", asAuditor("projections", "verify", "auditors")...)

	s.ok("auditor", "revoke", parsed.ID)
	s.refused("admin token", asAuditor("audit", "destination", id)...)
	s.shows("revoked 2", "auditor", "list")
}

func TestAuditIsExported(t *testing.T) {
	t.Parallel()
	s := open(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	lines := s.ok("audit", "destination", id, "--export", "-")
	got := strings.Count(lines, "\n") + 1
	assert.True(t, got == 4 && strings.HasPrefix(lines, `{"destination":"`+id), "%d lines:\n%s", got, lines)
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.ndjson")
	assert.Equal(t, s.ok("audit", "destination", id, "--export", file), "exported 4 changes to "+file, "export")
	data, err := os.ReadFile(file)
	assert.True(t, err == nil && strings.TrimSpace(string(data)) == lines, "the file differs: %v\n%s", err, data)
	// A failed export leaves neither a part nor a wrong file.
	s.refused("no destination has or had this id", "audit", "destination", uuid.NewString(), "--export",
		filepath.Join(dir, "none.ndjson"))
	s.refused("no such file", "audit", "destination", id, "--export", filepath.Join(dir, "missing", "audit.ndjson"))
	assert.Equal(t, len(must.Get(os.ReadDir(dir))(t)), 1, "left behind")
}

// The record of an organization is found by its id after its deletion, and that of operators by name.
func TestAuditRecord(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	org := s.ok("org", "create", "Town hall", "--reason", "contract 12")
	s.ok("console", org, "--as", "bob", "--scopes", "read")
	s.ok("org", "delete", org, "--yes", "--reason", "contract ended")
	for command, want := range map[string][]string{
		"audit organization " + org: {"registered Town hall (organization " + org[:8] + ")", "reason: contract 12",
			"reason: contract ended", "made a login link of the console for " + org[:8] + " as bob", "deleted Town hall"},
		"audit operator":                            {"made a login link"},
		"audit operator operator":                   {"deleted Town hall", "made a login link"},
		"audit --kind operator --limit 1 --json":    {`"type": "operator.acted.v1"`},
		"audit key nokey000":                        {"nothing on record"},
		"audit organization " + org + " --export -": {`"reason":"contract ended"`},
	} {
		s.has(unwrapped(s.ok(strings.Fields(command)...)), want...)
	}
	s.refused("kind must be one of", "audit", "list", "--kind", "wishes")
	s.refused("thing needs its kind", "audit", "list", "--thing", org)
}

// unwrapped joins the lines of a change in a list.
func unwrapped(list string) string { return regexp.MustCompile(`\n {20,}`).ReplaceAllString(list, " ") }

// Whatever becomes of keys and tokens is on record with who did it, when and why.
func TestAuditRecordOfTokens(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	id := func(kind credential.Kind, token string) string {
		parsed, ok := credential.Parse(kind, token)
		must.True(t, ok, "issued %q", token)
		return parsed.ID
	}
	org := s.ok("org", "create", "Town hall")
	first := id(credential.APIKey, s.ok("key", "issue", org, "--reason", "for the site"))
	s.ok("operator", "issue", "ann", "--reason", "new here")
	ann := s.ok("operator", "rotate", "ann", "--reason", "lost", "--overlap", "0s")
	second := id(credential.APIKey, s.ok("key", "rotate", org, first, "--reason", "quarterly", "--admin-token", ann))
	s.ok("key", "revoke", org, second, "--reason", "leaked", "--admin-token", ann)
	auditor := id(credential.AuditorToken, s.ok("auditor", "issue", "Court", "--reason", "of 2026", "--admin-token", ann))
	s.ok("auditor", "revoke", auditor, "--reason", "it is over", "--admin-token", ann)
	s.ok("operator", "revoke", "ann", "--reason", "left")

	const at = `(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+05:45 +`
	issued := at + `operator +issued .*` + first + `\)? with the`
	rotated := at + `operator:ann +issued .*` + second
	revoked := at + `operator:ann +revoked .*` + second
	ended := at + `operator:ann +revoked Court \(auditor ` + auditor + `\); reason: it is over$`
	left := []string{
		at + `operator +issued operator ann the token \w+; reason: new here$`,
		at + `operator +issued operator ann the token .*`,
		at + `operator +revoked operator ann; reason: left$`,
	}
	for command, want := range map[string][]string{
		"audit key " + second:               {rotated, revoked},
		"audit operator ann":                append([]string{rotated, revoked, ended}, left...),
		"audit operator":                    left,
		"audit list --kind auditor":         {at + `operator:ann +issued Court .* reason: of 2026$`, ended},
		"audit --actor operator:ann":        {rotated, revoked, ended},
		"audit --kind key --thing " + first: {issued, rotated},
	} {
		got := s.ok(strings.Fields(command)...)
		for line := range strings.Lines(got) {
			assert.True(t, len([]rune(strings.TrimSpace(line))) <= 100, "%s is wider than 100 columns: %s", command, line)
		}
		got = unwrapped(got)
		for _, line := range want {
			assert.True(t, regexp.MustCompile(line).MatchString(got), "%s lacks %q: %s", command, line, got)
		}
	}
}
