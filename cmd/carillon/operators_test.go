package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/command/credential"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestOperatorsDay(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	reader := s.ok("org", "create", "Reader")
	s.has(s.ok("org", "list"), "ID ", "Town hall", org)
	var issued struct{ ID, Key string }
	must.OK(t, json.Unmarshal([]byte(s.ok("key", "issue", org, "--name", "crm", "--expires", "720h", "--json")),
		&issued, json.MatchCaseInsensitiveNames(true)))
	key, ok := credential.Parse(credential.APIKey, issued.Key)
	assert.True(t, ok && key.ID == issued.ID, "issued %q", issued)
	s.ok("key", "issue", org)
	s.ok("key", "revoke", org, issued.ID)
	keys := s.ok("key", "list", org[:8])
	assert.True(t, regexp.MustCompile(`(?m)^`+issued.ID+` +crm +.* revoked `).MatchString(keys) &&
		strings.Count(keys, " valid") == 1 && !strings.Contains(keys, issued.Key), "key list:\n%s", keys)
	list := s.ok("key", "list", org, "--json")
	assert.True(t, strings.Count(list, `"id"`) == 2 && strings.Count(list, `"revokedAt": null`) == 1,
		"key list --json:\n%s", list)
	s.shows("/console/enter?token=", "console", org[:8], "--as", "ann", "--scopes", "read,write")
	s.refused("organization not found", "console", uuid.NewString(), "--as", "ann")

	source := s.ok("source", "add", "site", "https://example.org/events", "--timezone", "Europe/Rome")
	if again := s.ok("source", "add", "site", "https://example.org/events", "--timezone", "Europe/Rome"); again != source {
		t.Errorf("the same source twice: %s and %s", source, again)
	}
	s.ok("source", "add", "instagram", "@townhall")
	s.has(s.ok("source", "list"), "https://example.org/events", "townhall")
	s.ok("source", "collect", source)

	feed := uuid.NewString()
	assert.Equal(t, s.ok("feed", "register", "news", org, "Local news", "--id", feed), feed, "registered")
	s.ok("feed", "share", "news", feed, reader)
	s.shows("no longer shared", "feed", "unshare", "news", feed, reader)
}

func TestPublishFromAFileAndFromStandardInput(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	var lines strings.Builder
	for i := range 50 {
		_, _ = fmt.Fprintf(&lines, `{"id":"%s","type":"factcheck.status.changed","source":"/f","subject":"c-%d",`+
			`"organizationId":"%s","data":{"id":"c-%d","status":"queued"}}`+"\n", uuid.New(), i, org, i)
	}
	file := filepath.Join(t.TempDir(), "events.ndjson")
	must.OK(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	for range 2 {
		assert.Equal(t, s.ok("publish", file), "published 50 events", "publish")
	}
	code, out, errors := runIn(t.Context(), lines.String(), append([]string{"publish", "-", "--json"}, s.server...)...)
	assert.True(t, code == 0 && strings.Contains(out, `"published": 50`), "publish -: exit %d\n%s%s", code, out, errors)
	bad := filepath.Join(t.TempDir(), "bad.ndjson")
	unsent := strings.Split(lines.String(), "\n")[0]
	unsent = unsent[:len(`{"id":"`)] + uuid.NewString() + unsent[len(`{"id":"`)+36:]
	must.OK(t, os.WriteFile(bad, []byte(unsent+"\n"+`{"type":"no.such","source":"/x","data":{}}`), 0o600))
	s.refused("line 2: ", "publish", bad)
	s.refused("(0 events were published", "publish", bad)
	s.refused("no such file", "publish", file+".missing")
}

func TestProjectionsAreShownAndRebuilt(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	current := regexp.MustCompile(`(?m)^organizations +readModel +running +- +\d+ `)
	must.Eventually(t, "organizations are shown as up to date", func() bool { // other tests write meanwhile
		return current.MatchString(s.ok("projections", "status"))
	})
	s.matches(`^organizations is rebuilt: \d+ events`, "projections", "rebuild", "organizations")
	s.shows(org, "org", "list")
	s.refused("no projection has this name", "projections", "rebuild", "unknown")
	s.shows("ready", "status")
	var status struct {
		Ready bool `json:"ready"`
	}
	err := json.Unmarshal([]byte(s.ok("status", "--json")), &status)
	assert.True(t, err == nil && status.Ready, "status --json: %+v, %v", status, err)
}

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fails(t, 1, "carillon serve", "org", "list", "--data-dir", dir)
	code, _, errors := runIn(t.Context(), "", "status", "--data-dir", dir, "--admin-token", "hunter2",
		"--admin-addr", "127.0.0.1:1")
	assert.True(t, code == 1 && strings.Contains(errors, "no server answers at http://127.0.0.1:1: start one") &&
		!strings.Contains(errors, "hunter2"), "no server: exit %d %s", code, errors)
}

func TestListenersDiffer(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, args := range [][]string{{"status"}, {"org", "list"}, {"publish", "-"},
		{"audit", "destination", uuid.NewString(), "--export", "-"}} {
		args = append(args, "--data-dir", s.server[1], "--admin-addr", s.app.APIAddr().String())
		code, out, errors := runIn(t.Context(), "", args...)
		if code != 1 || out != "" || !strings.Contains(errors, s.app.APIAddr().String()+
			" is the address of Carillon's API, not of its admin API: name that one (CARILLON_ADMIN_ADDR") {
			t.Errorf("carillon %v: exit %d\n%s%s", args, code, out, errors)
		}
	}
}

// TestOrganizationLimitsSuspensionDeletion from the command line.
func TestOrganizationLimitsSuspensionDeletion(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	s.matches(`(?s)^feeds +10000 +default.*\nrequestsPerSecond +10000 +default`, "org", "limits", org[:8])
	s.matches(`^feeds +50 +set`, "org", "limits", org[:8], "feeds=50", "keys=2")
	s.matches(`(?s)^destinations +0 +set.*\nfeeds +50 +set.*\nkeys +1000 +default`, "org", "limits", org,
		"destinations=0", "keys=default") // the others stay
	s.shows(`"feeds": 50`, "org", "limits", org, "--json")
	s.refused("must be LIMIT=N", "org", "limits", org, "feeds")
	s.refused("with a whole number or default", "org", "limits", org, "feeds=many")
	s.refused(`unknown limit "cakes": name one of backfillEventsPerDay, destinations, `, "org", "limits", org, "cakes=1")

	listed := func(status string) {
		t.Helper()
		s.matches(org+` +Town hall .* `+status, "org", "list")
	}
	listed("registered")
	s.ok("org", "suspend", org[:8], "--reason", "unpaid")
	listed("suspended")
	s.ok("org", "resume", org[:8])
	listed("registered")
	s.refused("confirm with --yes", "org", "delete", org)
	s.refused("by its whole id", "org", "delete", org[:8], "--yes")
	listed("registered")
	s.shows("deleted", "org", "delete", org, "--yes")
	s.ok("org", "delete", org, "--yes") // the same again changes nothing
	list := s.ok("org", "list")
	assert.True(t, !strings.Contains(list, org), "it is still listed:\n%s", list)
	s.refused("organization not found", "org", "limits", org, "feeds=1")
}

// TestClientCertificatesOfOrganizations from the command line.
func TestClientCertificatesOfOrganizations(t *testing.T) {
	t.Parallel()
	s := open(t)
	org, dir := s.ok("org", "create", "Town hall"), t.TempDir()
	authority := mtlstest.NewAuthority(t, "Receiver's")
	pair, other := authority.Issue("carillon", nil), authority.Issue("other", nil)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	cert, key := file("client.pem", pair.Chain), file("client-key.pem", pair.Key)
	s.refused("client certificate not found", "org", "certificate", "show", org[:8])
	s.refused("--cert", "org", "certificate", "set", org[:8], "--cert", filepath.Join(dir, "none"), "--key", key)
	s.refused("can't be the right file", "org", "certificate", "set", org[:8], "--cert", cert, "--key",
		file("large", strings.Repeat("x", 17<<10)))
	s.refused("privateKey is not the key of this certificate", "org", "certificate", "set", org[:8], "--cert", cert,
		"--key", file("other", other.Key))
	shown := s.ok("org", "certificate", "set", org[:8], "--cert", cert, "--key", key)
	for _, want := range []string{`subject +CN=carillon`, `issuer +CN=Receiver's`, `SHA-256 +[0-9a-f]{64}`,
		`expires +.*, in 89 days`} {
		s.matches(`^`+want+` *$`, "org", "certificate", "show", org)
	}
	assert.True(t, !strings.Contains(shown, pair.Key[60:90]), "the private key is shown")
	if text := s.ok("org", "certificate", "show", org, "--json"); !strings.Contains(text, `"daysLeft": 89`) ||
		!strings.Contains(text, `"setBy": "operator"`) || strings.Contains(text, "PRIVATE") {
		t.Errorf("--json:\n%s", text)
	}
	s.ok("org", "certificate", "remove", org[:8])
	s.refused("the organization has none", "org", "certificate", "remove", org[:8])
}
