package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/credential"
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
	if err != nil {
		s.Fatal(err)
	}
	return created.ID
}

func (s shell) delete(org string, id uuid.UUID) {
	s.Helper()
	_, err := s.app.Commands.DeleteDestination(s.Context(), caller(org), command.DeleteDestination{ID: id})
	if err != nil {
		s.Fatal(err)
	}
}

// An analyst's login is created, listed and deleted; its name is checked.
func TestAnalystLogin(t *testing.T) {
	t.Parallel()
	s := open(t)
	name := "ana_" + strings.ToLower(rand.Text())
	connection := s.ok("analytics", "login", name)
	conn, err := pgx.Connect(t.Context(), strings.TrimSpace(connection))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	s.refused("name must be 1 to 63 lowercase", "analytics", "login", "Ana")
	if list := s.ok("analytics", "list"); !strings.Contains(list, name) {
		t.Errorf("logins:\n%s", list)
	}
	s.ok("analytics", "delete", name)
	s.refused("no analyst has this login", "analytics", "delete", name)
}

func TestAuditorsDay(t *testing.T) {
	t.Parallel()
	s := open(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()

	token := s.ok("auditor", "issue", "Court of audit", "--expires-at", "720h")
	parsed, ok := credential.Parse(credential.AuditorToken, token)
	if !ok {
		t.Fatalf("issued %q", token)
	}
	if list := s.ok("auditor", "list"); !regexp.MustCompile(`(?m)^` + parsed.ID +
		` +Court of audit .* valid$`).MatchString(list) {
		t.Errorf("auditors:\n%s", list)
	}
	asAuditor := func(args ...string) []string { return append(args, "--admin-token", token) }
	picture := s.ok(asAuditor("audit", "destination", id)...)
	for _, text := range []string{"status        deleted", `created "CRM" for`, " begins", "┬",
		"◀─ the state above"} {
		if !strings.Contains(picture, text) {
			t.Errorf("the picture lacks %q:\n%s", text, picture)
		}
	}
	var audit adminapi.Audit
	if err := json.Unmarshal([]byte(s.ok(asAuditor("audit", "destination", id, "--json")...)),
		&audit); err != nil || len(audit.Entries) != 4 {
		t.Fatalf("audit --json: %d entries, %v", len(audit.Entries), err)
	}
	if then := s.ok(asAuditor("audit", "destination", id, "--at",
		audit.Entries[1].At.Format("2006-01-02T15:04:05.999999999Z07:00"))...); !strings.Contains(then,
		"status        enabled") {
		t.Errorf("audit --at:\n%s", then)
	}
	s.refused("at must be an ISO 8601 time", asAuditor("audit", "destination", id, "--at", "yesterday")...)
	s.refused("no destination has or had this id", asAuditor("audit", "destination", uuid.NewString())...)
	s.refused("admin token", asAuditor("org", "list")...)
	s.refused("admin token", asAuditor("auditor", "issue", "Accomplice")...)
	if got := s.ok(asAuditor("projections", "status")...); !strings.Contains(got, "audit ") {
		t.Errorf("projections:\n%s", got)
	}

	s.ok("auditor", "revoke", parsed.ID)
	s.refused("admin token", asAuditor("audit", "destination", id)...)
	if list := s.ok("auditor", "list"); !strings.Contains(list, "revoked 2") {
		t.Errorf("auditors:\n%s", list)
	}
	s.refused("auditor not found", "auditor", "revoke", "nobody00")
	s.refused("neither a time", "auditor", "issue", "A", "--expires", "tomorrow")
}

func TestAuditIsExported(t *testing.T) {
	t.Parallel()
	s := open(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	lines := s.ok("audit", "destination", id, "--export", "-")
	if got := strings.Count(lines, "\n") + 1; got != 4 || !strings.HasPrefix(lines, `{"destination":"`+id) {
		t.Errorf("%d lines:\n%s", got, lines)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.ndjson")
	if got := s.ok("audit", "destination", id, "--export", file); got != "exported 4 changes to "+file {
		t.Errorf("export: %s", got)
	}
	data, err := os.ReadFile(file)
	if err != nil || strings.TrimSpace(string(data)) != lines {
		t.Errorf("the file differs: %v\n%s", err, data)
	}
	// A failed export leaves neither a part nor a wrong file.
	s.refused("no destination has or had this id", "audit", "destination", uuid.NewString(), "--export",
		filepath.Join(dir, "none.ndjson"))
	s.refused("no such file", "audit", "destination", id, "--export", filepath.Join(dir, "missing", "audit.ndjson"))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The record of an organization is found by its id after its deletion, and that of operators by name.
func TestAuditRecord(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	org := s.ok("org", "create", "Town hall", "--reason", "contract 12")
	s.ok("console", org, "--as", "bob", "--scopes", "read")
	s.ok("org", "delete", org, "--yes", "--reason", "contract ended")
	for command, want := range map[string][]string{
		"audit organization " + org: {"organization registered: name Town hall", "contract 12", "contract ended",
			"action make-console-link, subject " + org + " as bob, scopes read", "organization deleted"},
		"audit operator":                            {"action make-console-link"},
		"audit operator operator":                   {"organization deleted", "action make-console-link"},
		"audit --kind operator --limit 1 --json":    {`"type": "operator.acted.v1"`},
		"audit key nokey000":                        {"nothing on record"},
		"audit organization " + org + " --export -": {`"reason":"contract ended"`},
	} {
		got := s.ok(strings.Fields(command)...)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s lacks %q:\n%s", command, text, got)
			}
		}
	}
	s.refused("kind must be one of", "audit", "list", "--kind", "wishes")
	s.refused("thing needs its kind", "audit", "list", "--thing", org)
}

// Whatever becomes of keys and tokens is on record with who did it, when and why.
func TestAuditRecordOfTokens(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	id := func(kind credential.Kind, token string) string {
		parsed, ok := credential.Parse(kind, token)
		if !ok {
			t.Fatalf("issued %q", token)
		}
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
	issued := at + `operator +organization key issued: .* key ` + first + ` +for the site$`
	rotated := at + `operator:ann +organization key rotated: .* key ` + second + ` +quarterly$`
	revoked := at + `operator:ann +organization key revoked: .* key ` + second + ` +leaked$`
	ended := at + `operator:ann +auditor token revoked: .* auditor ` + auditor + ` +it is over$`
	left := []string{
		at + `operator +operator token issued: .* operator ann +new here$`,
		at + `operator +operator token rotated: .* operator ann +lost$`,
		at + `operator +operator revoked: .* operator ann +left$`,
	}
	for command, want := range map[string][]string{
		"audit key " + first:                {issued, rotated},
		"audit key " + second:               {rotated, revoked},
		"audit organization " + org:         {issued, rotated, revoked},
		"audit operator ann":                append([]string{rotated, revoked, ended}, left...),
		"audit operator":                    left,
		"audit list --kind auditor":         {at + `operator:ann +auditor token issued: .* of 2026$`, ended},
		"audit --actor operator:ann":        {rotated, revoked, ended},
		"audit --kind key --thing " + first: {issued, rotated},
	} {
		got := s.ok(strings.Fields(command)...)
		for _, line := range want {
			if !regexp.MustCompile(line).MatchString(got) {
				t.Errorf("%s lacks %q:\n%s", command, line, got)
			}
		}
	}
}
