//go:build nightly

package main

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// TestDrill follows docs/operate/keys-and-backup.md, line by line.
func TestDrill(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	page := must.Get(os.ReadFile(filepath.Join(root, "docs/operate/keys-and-backup.md")))(t)
	_, drill, found := strings.Cut(string(page),
		"To restore everything on a new machine (try this before you need it):\n\n```sh\n")
	drill, _, ended := strings.Cut(drill, "```")
	must.True(t, found && ended, "the page has no drill")
	places := map[string]string{}
	for _, name := range []string{"BACKUP", "DATA", "SAFE", "NEW"} {
		places[name] = filepath.Join(dir, strings.ToLower(name))
	}
	must.OK(t, os.Mkdir(places["SAFE"], 0o700))
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
			//nolint:gosec // the page's words
			out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput()
			must.True(t, err == nil, "%s: %v: %s", line, err, out)
		case words[1] == "serve" && slices.Contains(words, "--after-restore"):
			stop() // the old machine is gone
			restored, key, _ = server(t, words[3], pgtest.URL(t),
				func(cfg *config.Config) { cfg.AfterRestore = true })
			assert.Equal(t, ask(t, key, http.MethodGet, restored+path+"/secrets", "", http.StatusOK), want, "the secrets")
			starts++
		case words[1] == "serve": // beside the old machine
			at := slices.Index(words, "--roles")
			_, _, end := server(t, words[3], pgtest.URL(t),
				func(cfg *config.Config) { cfg.Roles = strings.Split(words[at+1], ",") })
			end()
			starts++
		default:
			code, _, errors := runIn(t.Context(), "", words[1:]...)
			must.True(t, code == 0, "%s: %s", line, errors)
		}
	}
	assert.Equal(t, starts, 2, "the drill starts a restored server … times: once to look at it, once to take over")
}

// TestChecksumsAreSigned signs checksums as a release does, by keys of its own, and changes them afterwards.
func TestChecksumsAreSigned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sums, public := filepath.Join(dir, "SHA256SUMS"), filepath.Join(dir, "minisign.pub")
	write := func(text string) {
		must.OK(t, os.WriteFile(sums, []byte(text), 0o600))
	}
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		cmd.Stdin = strings.NewReader("a password\n")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	making := func(target, key string) (string, error) {
		return run("make", target, "SUMS="+sums, "PUBLIC_KEY="+public, "SIGN_KEY="+key)
	}
	verify := func() (string, error) {
		return run("go", "tool", "-modfile=.ci/tools/go.mod", "minisign", "-V", "-p", public, "-m", sums)
	}
	secret, other := filepath.Join(dir, "secret"), filepath.Join(dir, "other")
	write("0123  carillon-linux-amd64.tar.gz\n")

	if said, err := making("sign", ""); err != nil || !strings.Contains(said, "NOT signed") {
		t.Errorf("without a key: %v, %s", err, said)
	}
	if said, err := making("sign", secret); err == nil || !strings.Contains(said, "make signing-key") {
		t.Errorf("before there is a public key: %v, %s", err, said)
	}
	for _, target := range []string{"signing-key", "sign"} {
		said, err := making(target, secret)
		must.True(t, err == nil && !strings.Contains(said, "a password"), "%s: %v, %s", target, err, said)
	}
	assert.Equal(t, must.Get(os.Stat(secret))(t).Mode().Perm(), 0o600, "the secret key's file")
	if said, err := verify(); err != nil || !strings.Contains(said, "carillon ") {
		t.Errorf("as it was signed: %v, %s", err, said)
	}
	write("4567  carillon-linux-amd64.tar.gz\n")
	if said, err := verify(); err == nil {
		t.Errorf("another sum is accepted: %s", said)
	}
	if said, err := run("make", "signing-key", "PUBLIC_KEY="+other+".pub", "SIGN_KEY="+other); err != nil {
		t.Fatal(err, said)
	}
	said, err := making("sign", other)
	_, statErr := os.Stat(sums + ".minisig")
	assert.True(t, err != nil && os.IsNotExist(statErr), "another key signs: %v, %v, %s", err, statErr, said)
}

// The read model of sources is late: its earlier state is not shown as the result of the visit.
func TestSourceCollectWaitsForALateList(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	site := pageServer(t, map[string]string{"/programme": jazzPage()})
	source := s.ok("source", "add", "site", site+"/programme")
	standstill := must.Get(s.app.Queries.Pool.Begin(t.Context()))(t)
	defer func() { _ = standstill.Rollback(context.WithoutCancel(t.Context())) }()
	// It can be read.
	must.Get(standstill.Exec(t.Context(), "LOCK TABLE sources.sources IN EXCLUSIVE MODE"))(t)
	code, errors := make(chan int, 1), ""
	go func() {
		ended, _, said := s.run("source", "collect", source, "--wait")
		errors = said
		code <- ended
	}()
	select {
	case <-code:
		t.Fatalf("it does not wait: %s", errors)
	case <-time.After(5 * time.Second): // the server answers after two
	}
	must.OK(t, standstill.Rollback(t.Context()))
	assert.Equal(t, <-code, 0, "exit … %s", errors)
}
