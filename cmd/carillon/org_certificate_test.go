package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"carillon/command/mtls/mtlstest"
)

// TestClientCertificatesOfOrganizations from the command line.
func TestClientCertificatesOfOrganizations(t *testing.T) {
	t.Parallel()
	s := open(t)
	org, dir := s.ok("org", "create", "Town hall"), t.TempDir()
	authority := mtlstest.NewAuthority(t, "Receiver's")
	pair, other := authority.Issue("carillon", nil), authority.Issue("other", nil)
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key := file("client.pem", pair.Chain), file("client-key.pem", pair.Key)
	s.refused("client certificate not found", "org", "certificate", "show", org[:8])
	s.refused("--cert", "org", "certificate", "set", org[:8], "--cert", filepath.Join(dir, "none"), "--key", key)
	s.refused("can't be the right file", "org", "certificate", "set", org[:8], "--cert", cert, "--key",
		file("large", strings.Repeat("x", 17<<10)))
	s.refused("privateKey is not the key of this certificate", "org", "certificate", "set", org[:8], "--cert", cert,
		"--key", file("other", other.Key))
	for _, shown := range []string{
		s.ok("org", "certificate", "set", org[:8], "--cert", cert, "--key", key),
		s.ok("org", "certificate", "show", org),
	} {
		for _, want := range []string{`subject +CN=carillon`, `issuer +CN=Receiver's`, `SHA-256 +[0-9a-f]{64}`,
			`expires +.*, in 89 days`} {
			if !regexp.MustCompile(`(?m)^` + want + ` *$`).MatchString(shown) {
				t.Errorf("the answer lacks %s:\n%s", want, shown)
			}
		}
		if strings.Contains(shown, pair.Key[60:90]) {
			t.Error("the private key is shown")
		}
	}
	if text := s.ok("org", "certificate", "show", org, "--json"); !strings.Contains(text, `"daysLeft": 89`) ||
		!strings.Contains(text, `"setBy": "operator"`) || strings.Contains(text, "PRIVATE") {
		t.Errorf("--json:\n%s", text)
	}
	s.ok("org", "certificate", "remove", org[:8])
	s.refused("the organization has none", "org", "certificate", "remove", org[:8])
}
