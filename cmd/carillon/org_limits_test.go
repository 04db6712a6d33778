package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command/mtls/mtlstest"
)

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
	if list := s.ok("org", "list"); strings.Contains(list, org) {
		t.Errorf("it is still listed:\n%s", list)
	}
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
		apitest.OK(t, os.WriteFile(path, []byte(text), 0o600))
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
	if strings.Contains(shown, pair.Key[60:90]) {
		t.Error("the private key is shown")
	}
	if text := s.ok("org", "certificate", "show", org, "--json"); !strings.Contains(text, `"daysLeft": 89`) ||
		!strings.Contains(text, `"setBy": "operator"`) || strings.Contains(text, "PRIVATE") {
		t.Errorf("--json:\n%s", text)
	}
	s.ok("org", "certificate", "remove", org[:8])
	s.refused("the organization has none", "org", "certificate", "remove", org[:8])
}
