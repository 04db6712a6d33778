package main

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/command/mtls/mtlstest"
	"carillon/projections/pgtest"
)

// TestABackupHasTheKeysOfClientCertificates: of those that are shown and no others, and it is refused where one is lost.
func TestABackupHasTheKeysOfClientCertificates(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	authority := mtlstest.NewAuthority(t, "Receiver's")
	const org = "0d000000-0000-4000-8000-000000000001" // that of development
	admin := ""
	serve := func(data string) (stop func()) {
		_, _, stop = server(t, data, pgtest.URL(t), func(cfg *config.Config) {
			admin = unusedAddress(t)
			cfg.AdminAddr, cfg.AfterRestore = admin, true
		})
		return stop
	}
	run := func(data string, args ...string) string {
		t.Helper()
		code, out, errors := runIn(t.Context(), "", append(args, "--admin-addr", admin, "--data-dir", data)...)
		if code != 0 {
			t.Fatalf("%v: %s", args, errors)
		}
		return out
	}
	stop := serve(at("data"))
	for _, name := range []string{"first", "second"} {
		pair := authority.Issue(name, nil)
		for file, text := range map[string]string{"cert.pem": pair.Chain, "key.pem": pair.Key} {
			if err := os.WriteFile(at(file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		run(at("data"), "org", "certificate", "set", org, "--cert", at("cert.pem"), "--key", at("key.pem"))
	}
	before := run(at("data"), "org", "certificate", "show", org)
	if made := answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data")); made.Keys != 1 {
		t.Errorf("backed up %+v", made)
	}
	stop()
	if err := os.Mkdir(at("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	master, err := os.ReadFile(filepath.Join(at("data"), config.MasterKeyFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(at("new"), config.MasterKeyFile), master, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if made := answer[backup.Manifest](t, "restore", at("backup"), "--data-dir", at("new")); made.Keys != 1 {
		t.Errorf("restored %+v", made)
	}
	stop = serve(at("new"))
	var after string
	for until := time.Now().Add(2 * time.Minute); after != before && time.Now().Before(until); {
		_, after, _ = runIn(t.Context(), "", "org", "certificate", "show", org, "--admin-addr", admin, "--data-dir", at("new"))
	}
	if after != before || !strings.Contains(after, "CN=second") {
		t.Errorf("restored, it is\n%s, and was\n%s", after, before)
	}
	stop()
	keys, err := custody.ReadSlots(t.Context(), filepath.Join(at("new"), "keys"))
	if err != nil || len(keys) != 1 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	slots := custody.NewSlots(filepath.Join(at("new"), "keys"), time.Now)
	if err := slots.Erase(t.Context(), slices.Collect(maps.Keys(keys))...); err != nil {
		t.Fatal(err)
	}
	slots.Close()
	code, _, told := runIn(t.Context(), "", "backup", at("another"), "--data-dir", at("new"))
	if want := "1 client certificate, of organization " + org; code != 1 || !strings.Contains(told, want) {
		t.Errorf("without its key: %d, %s", code, told)
	}
}

// unusedAddress is one that the kernel has just given and taken back.
func unusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}
