package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"carillon/cmd/internal/httpapi/apitest"
)

// The secrets that compose.yaml has no default for are made once, and a server takes them.
func TestInitMakesSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".env")
	if code, _, errors := runIn(t.Context(), "", "init", file); code != 0 {
		t.Fatal(errors)
	}
	made := string(apitest.Must(os.ReadFile(file))(t))
	values := map[string]string{}
	for line := range strings.Lines(made) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	compose := string(apitest.Must(os.ReadFile("../../deploy/compose.yaml"))(t))
	for _, found := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(compose, -1) {
		if len(values[found[1]]) < 32 {
			t.Errorf("%s is %q", found[1], values[found[1]])
		}
	}
	if info := apitest.Must(os.Stat(file))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	args := []string{"serve", "--check-config", "--master-key", values["CARILLON_MASTER_KEY"],
		"--admin-token", values["CARILLON_ADMIN_TOKEN"]}
	if code, out, errors := runIn(t.Context(), "", args...); code != 0 || !strings.Contains(out, "settings are right") {
		t.Errorf("%d, %s, %s", code, out, errors)
	}
	fails(t, 1, "is there already", "init", file)
	fails(t, 2, "is missing: CARILLON_TLS_CERT needs it", "serve", "--check-config", "--tls-cert", file)
	if again := string(apitest.Must(os.ReadFile(file))(t)); again != made {
		t.Error("the file was replaced")
	}
}
