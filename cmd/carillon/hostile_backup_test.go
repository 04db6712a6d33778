package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/projections/pgtest"
)

// TestHostileRestoreOverWhatIsThere: a backup that is older than a deletion, restored where the deletion is known, is
// refused and brings no key back, whether a server runs there or not.
func TestHostileRestoreOverWhatIsThere(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, key, stop := server(t, at("data"), pgtest.URL(t))
	const hook = "/events/destinations/crm"
	var made struct {
		Data struct{ ID uuid.UUID }
	}
	text := ask(t, key, http.MethodPut, url+hook, `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook"}}`, http.StatusCreated)
	if err := json.Unmarshal([]byte(text), &made, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	kept := func() bool {
		slots, err := os.ReadFile(at("data/keys/slots"))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Contains(slots, made.Data.ID[:])
	}
	answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data"))
	if !kept() {
		t.Fatal("the key is not where it is looked for")
	}
	ask(t, key, http.MethodDelete, url+hook, "", http.StatusOK)
	refusedRestore(t, at, "a server runs")
	if kept() {
		t.Error("the key of a deleted destination is back, where a server runs")
	}
	stop()
	refusedRestore(t, at, "must be empty")
	if kept() {
		t.Error("the key of a deleted destination is back, after the server has ended")
	}
}

func refusedRestore(t *testing.T, at func(string) string, text string) {
	t.Helper()
	if code, _, errors := runIn(t.Context(), "", "restore", at("backup"), "--data-dir", at("data")); code != 1 || !strings.Contains(errors, text) {
		t.Errorf("restore: %d, %s, want %q", code, errors, text)
	}
}

// TestHostileBackupDuringARotation: the master key that is there afterwards opens the backup, or it is none.
func TestHostileBackupDuringARotation(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(cfg *config.Config) { cfg.Dev = true })
	data, to, other := s.server[1], filepath.Join(shortDir(t), "backup"), shortDir(t)
	by := command.Caller{Organization: uuid.MustParse("0d000000-0000-4000-8000-000000000001"), Actor: "key:ab12CD34"}
	if _, err := s.app.Commands.CreateDestination(t.Context(), by, command.CreateDestination{Name: "CRM", URL: "https://127.0.0.1:1/hook"}); err != nil {
		t.Fatal(err)
	}
	in, err := (&installation{DataDir: data}).connect(terminal{out: io.Discard, err: io.Discard}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	copyStore := in.CopyStore
	in.CopyStore = func(ctx context.Context, dir string) error {
		s.ok("keys", "rotate-master")
		return copyStore(ctx, dir)
	}
	if _, err := in.Make(t.Context(), to, time.Now()); err == nil || !strings.Contains(err.Error(), "was rotated") {
		t.Errorf("a backup by the key of before is taken for whole: %v", err)
	}
	if made := answer[backup.Manifest](t, "backup", to, "--data-dir", data); made.Keys != 1 {
		t.Errorf("backed up %+v", made)
	}
	key, err := os.ReadFile(filepath.Join(data, config.MasterKeyFile)) //nolint:gosec // the test's own
	if err == nil {
		err = os.WriteFile(filepath.Join(other, config.MasterKeyFile), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	answer[backup.Manifest](t, "restore", to, "--data-dir", other)
}

// TestHostileBackupsIntoOneDirectory: of some at the same time one is made and the others are refused, and what there is
// is whole.
func TestHostileBackupsIntoOneDirectory(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, key, stop := server(t, at("data"), pgtest.URL(t))
	ask(t, key, http.MethodPut, url+"/events/destinations/crm", `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook"}}`, http.StatusCreated)

	// Another one is under way: nothing of what it has written is touched.
	if err := os.MkdirAll(at("backup/eventstore.partial"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("backup/eventstore.partial/half"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(at("backup"))
	if err == nil {
		err = syscall.Flock(int(other.Fd()), syscall.LOCK_EX) //nolint:gosec // a descriptor fits
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errors := runIn(t.Context(), "", "backup", at("backup"), "--data-dir", at("data")); code != 1 || !strings.Contains(errors, "another backup") {
		t.Errorf("beside another one: %d, %s", code, errors)
	}
	if _, err := os.Stat(at("backup/eventstore.partial/half")); err != nil {
		t.Error(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}

	var all sync.WaitGroup
	codes := make(chan int, 4)
	for range cap(codes) {
		all.Go(func() {
			code, _, errors := runIn(t.Context(), "", "backup", at("backup"), "--data-dir", at("data"))
			if code != 0 && !strings.Contains(errors, "another backup") && !strings.Contains(errors, "whole backup") {
				t.Errorf("%d, %s", code, errors)
			}
			codes <- code
		})
	}
	all.Wait()
	close(codes)
	whole := 0
	for code := range codes {
		if code == 0 {
			whole++
		}
	}
	if whole != 1 {
		t.Errorf("%d of 4 say that they made it", whole)
	}
	stop()
	if err := os.RemoveAll(at("data/eventstore")); err != nil {
		t.Fatal(err)
	}
	answer[backup.Manifest](t, "restore", at("backup"), "--data-dir", at("data"))
}
