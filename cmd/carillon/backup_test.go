package main

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

// server runs a whole server on a directory, and gives the address of its API, its key, and what stops it.
func server(t *testing.T, dir, database string, changes ...func(*config.Config)) (url, key string, stop func()) {
	t.Helper()
	cfg := config.Config{
		HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: dir, DatabaseURL: config.Address(database), Dev: true,
		Roles:           []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver},
		DeliveryTimeout: 30 * time.Second, AutoDisableAfter: 100,
	}
	for _, change := range changes {
		change(&cfg)
	}
	a, err := app.Open(t.Context(), cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("server: %v", err)
		}
		a.Close()
	}
	t.Cleanup(stop)
	if key, err = dev.ReadKey(dir); err != nil { // the one of before, where there was one
		if key, err = a.DevelopmentKey(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return "http://" + a.APIAddr().String(), key, stop
}

// ask sends a request until it is answered with a status, and gives the answer.
func ask(t *testing.T, key, method, url, body string, want int) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); ; <-tick.C {
		request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+key)
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode == want {
			return string(text)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s: %d %s", method, url, response.StatusCode, text)
		}
	}
}

// TestBackupAndRestore: all is made anew on another machine, from the backup and the master key alone.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, key, stop := server(t, at("data"), pgtest.URL(t))
	const hooks, body = "/events/destinations/", `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook","headers":{"x-key":"k"}}}`
	ask(t, key, http.MethodPut, url+hooks+"crm", body, http.StatusCreated)
	ask(t, key, http.MethodPut, url+hooks+"gone", body, http.StatusCreated)
	want := ask(t, key, http.MethodGet, url+hooks+"crm/secrets", "", http.StatusOK)

	// A backup that was cut off after the event store was copied goes on; what was made since is not in it.
	if code, _, errors := runIn(t.Context(), "", "backup", at("backup"), "--data-dir", at("data")); code != 0 {
		t.Fatal(errors)
	}
	if err := os.Remove(at("backup/backup.json")); err != nil {
		t.Fatal(err)
	}
	ask(t, key, http.MethodPut, url+hooks+"later", body, http.StatusCreated)
	if made := answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data")); made.Keys != 2 || made.Events == 0 {
		t.Errorf("backed up %+v", made)
	}
	// Where destinations were deleted since, the event store is copied again, so that each in it has its key.
	if err := os.Remove(at("backup/backup.json")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(at("backup/keys")); err != nil {
		t.Fatal(err)
	}
	ask(t, key, http.MethodDelete, url+hooks+"gone", "", http.StatusOK)
	if made := answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data")); made.Keys != 2 {
		t.Errorf("backed up again %+v", made)
	}
	if code, _, errors := runIn(t.Context(), "", "backup", at("backup"), "--data-dir", at("data")); code != 1 || !strings.Contains(errors, "whole backup") {
		t.Errorf("over a whole backup: %d, %s", code, errors)
	}
	stop()

	refused := func(text string) {
		t.Helper()
		if code, _, errors := runIn(t.Context(), "", "restore", at("backup"), "--data-dir", at("new")); code != 1 || !strings.Contains(errors, text) {
			t.Errorf("restore: %d, %s, want %q", code, errors, text)
		}
	}
	refused("there is no master key")
	if err := os.Mkdir(at("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	copyTo := func(name, from, to string) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(from, name)) //nolint:gosec // the test's own
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("new/master.key"), []byte("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("the backup was made with master key")
	copyTo("master.key", at("data"), at("new"))
	if made := answer[backup.Manifest](t, "restore", at("backup"), "--data-dir", at("new")); made.Keys != 2 {
		t.Errorf("restored %+v", made)
	}
	if code, _, errors := runIn(t.Context(), "", "restore", at("backup"), "--data-dir", at("new")); code != 0 {
		t.Errorf("a restore that is done, again: %s", errors)
	}
	cfg := config.Config{HTTPAddr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: at("new"), Roles: []string{config.RoleDeliver}}
	if _, err := app.Open(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "--after-restore") {
		t.Errorf("it would send what was sent since: %v", err)
	}
	url, key, stop = server(t, at("new"), pgtest.URL(t), func(cfg *config.Config) { cfg.AfterRestore = true })
	defer stop()
	if got := ask(t, key, http.MethodGet, url+hooks+"crm/secrets", "", http.StatusOK); got != want {
		t.Errorf("the secrets are %s, want %s", got, want)
	}
	ask(t, key, http.MethodGet, url+hooks+"gone", "", http.StatusNotFound)
}

// TestTheDrill follows docs/operate/keys-and-backup.md, line by line.
func TestTheDrill(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/operate/keys-and-backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drill, found := strings.Cut(string(page), "this is the drill.\n\n```sh\n")
	drill, _, ended := strings.Cut(drill, "```")
	if !found || !ended {
		t.Fatal("the page has no drill")
	}
	places := map[string]string{}
	for _, name := range []string{"BACKUP", "DATA", "SAFE", "NEW"} {
		places[name] = filepath.Join(dir, strings.ToLower(name))
	}
	if err := os.Mkdir(places["SAFE"], 0o700); err != nil {
		t.Fatal(err)
	}
	const path = "/events/destinations/crm"
	url, key, stop := server(t, places["DATA"], pgtest.URL(t))
	ask(t, key, http.MethodPut, url+path, `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook"}}`, http.StatusCreated)
	want := ask(t, key, http.MethodGet, url+path+"/secrets", "", http.StatusOK)
	restored, starts := "", 0
	for line := range strings.Lines(drill) {
		line, _, _ = strings.Cut(os.Expand(line, func(name string) string { return places[name] }), "#")
		words := strings.Fields(strings.ReplaceAll(line, `"`, ""))
		switch {
		case words[0] != "carillon":
			if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil { //nolint:gosec // the page's
				t.Fatalf("%s: %v: %s", line, err, out)
			}
		case words[1] == "serve" && slices.Contains(words, "--after-restore"):
			stop() // the old machine is gone
			restored, key, _ = server(t, words[3], pgtest.URL(t), func(cfg *config.Config) { cfg.AfterRestore = true })
			if got := ask(t, key, http.MethodGet, restored+path+"/secrets", "", http.StatusOK); got != want {
				t.Errorf("the secrets are %s, want %s", got, want)
			}
			starts++
		case words[1] == "serve": // beside the old machine
			at := slices.Index(words, "--roles")
			_, _, end := server(t, words[3], pgtest.URL(t), func(cfg *config.Config) { cfg.Roles = strings.Split(words[at+1], ",") })
			end()
			starts++
		default:
			if code, _, errors := runIn(t.Context(), "", words[1:]...); code != 0 {
				t.Fatalf("%s: %s", line, errors)
			}
		}
	}
	if starts != 2 {
		t.Errorf("the drill starts a restored server %d times: once to look at it, once to take over", starts)
	}
}
