//go:build nightly

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/projections/pgtest"
)

// TestDrill follows docs/operate/keys-and-backup.md, line by line.
func TestDrill(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/operate/keys-and-backup.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, drill, found := strings.Cut(string(page),
		"To restore everything on a new machine (try this before you need it):\n\n```sh\n")
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
	ask(t, key, http.MethodPut, url+path, `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook"}}`,
		http.StatusCreated)
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
			restored, key, _ = server(t, words[3], pgtest.URL(t),
				func(cfg *config.Config) { cfg.AfterRestore = true })
			if got := ask(t, key, http.MethodGet, restored+path+"/secrets", "", http.StatusOK); got != want {
				t.Errorf("the secrets are %s, want %s", got, want)
			}
			starts++
		case words[1] == "serve": // beside the old machine
			at := slices.Index(words, "--roles")
			_, _, end := server(t, words[3], pgtest.URL(t),
				func(cfg *config.Config) { cfg.Roles = strings.Split(words[at+1], ",") })
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
