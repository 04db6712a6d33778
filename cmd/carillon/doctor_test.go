package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"carillon/cmd/internal/doctor"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestDoctor examines a machine on which nothing was started yet: what fails decides over the exit code.
func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free := []string{"doctor", "--json", "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}
	code, out, complaint := runIn(t.Context(), "", free...)
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil || code != 0 || len(findings) < 15 || complaint != "" {
		t.Errorf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	code, out, complaint = runIn(t.Context(), "", "doctor", "--data-dir", dir, "--backup", dir)
	assert.True(t, code == 1 && strings.Contains(out, "holds no whole backup") && complaint != "" &&
		strings.Contains(out, `→ make one: "carillon backup`), "exit %d\n%s%s", code, out, complaint)
}

// TestConfigShow: each value has its source, and no secret shows.
func TestConfigShow(t *testing.T) {
	t.Setenv("CARILLON_ADMIN_TOKEN", "hunter2hunter2hunter2hunter2hunter2")
	t.Setenv("CARILLON_HTTP_ADDR", "127.0.0.1:9090")
	code, out, complaint := runIn(t.Context(), "", "config", "show", "--json", "--roles", "api,deliver",
		"--database-url", "postgres://carillon:hunter2@host/x")
	var settings []setting
	if err := json.Unmarshal([]byte(out), &settings); err != nil || code != 0 || strings.Contains(out, "hunter2") {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	want := map[string]string{
		"admin-token":             "[hidden] CARILLON_ADMIN_TOKEN",
		"http-addr":               "127.0.0.1:9090 CARILLON_HTTP_ADDR",
		"roles":                   "api,deliver flag",
		"delivery-retry-schedule": "5s,5m0s,30m0s,2h0m0s,5h0m0s,10h0m0s,14h0m0s,20h0m0s,24h0m0s default",
	}
	for _, s := range settings {
		if got, asked := want[s.Flag]; asked && s.Value+" "+s.From != got {
			t.Errorf("%+v, want %s", s, got)
		}
		delete(want, s.Flag)
	}
	assert.True(t, len(want) == 0, "not shown: %v", want)
}

// The secrets that compose.yaml has no default for are made once, and a server takes them.
func TestInitMakesSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".env")
	if code, _, errors := runIn(t.Context(), "", "init", file); code != 0 {
		t.Fatal(errors)
	}
	made := string(must.Get(os.ReadFile(file))(t))
	values := map[string]string{}
	for line := range strings.Lines(made) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	compose := string(must.Get(os.ReadFile("../../deploy/compose.yaml"))(t))
	for _, found := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(compose, -1) {
		if len(values[found[1]]) < 32 {
			t.Errorf("%s is %q", found[1], values[found[1]])
		}
	}
	if info := must.Get(os.Stat(file))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	args := []string{"serve", "--check-config", "--master-key", values["CARILLON_MASTER_KEY"],
		"--admin-token", values["CARILLON_ADMIN_TOKEN"]}
	if code, out, errors := runIn(t.Context(), "", args...); code != 0 || !strings.Contains(out, "settings are right") {
		t.Errorf("%d, %s, %s", code, out, errors)
	}
	fails(t, 1, "is there already", "init", file)
	fails(t, 2, "is missing: CARILLON_TLS_CERT needs it", "serve", "--check-config", "--tls-cert", file)
	assert.Equal(t, string(must.Get(os.ReadFile(file))(t)), made, "the file was replaced")
}
