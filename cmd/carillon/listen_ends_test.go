package main

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
)

// TestListenEndsWithItsDestination: a listener whose destination others disable or delete says so, and fails.
func TestListenEndsWithItsDestination(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	for _, how := range []struct{ method, body, says, mode string }{
		{http.MethodPatch, `{"status":"disabled"}`, "was disabled by somebody else", "--json"}, // as always
		{http.MethodPatch, `{"status":"disabled"}`, "was disabled by somebody else", "--stream"},
		{http.MethodDelete, "", "was deleted by somebody else", "--json"},
		{http.MethodDelete, "", "was deleted by somebody else", "--stream"},
	} {
		l := s.listen(how.mode)
		s.send(how.method, "/events/destinations/"+l.id, how.body, http.StatusOK)
		if code, notes := l.ended(); code != 1 || !strings.Contains(notes, how.says) {
			t.Errorf("%+v: exit %d\n%s", how, code, notes)
		}
	}
	if now := s.destinations(); strings.Contains(now, `"carillon listen"`) {
		t.Errorf("left: %s", now)
	}
}

// TestListenEnablesItsDestination: failures of the program that webhooks go on to don't make the listener deaf.
func TestListenEnablesItsDestination(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(c *config.Config) { c.AutoDisableAfter = 1 })
	for _, mode := range []string{"--json", "--stream"} {
		s.listenThroughDisabling(mode)
	}
}

func (s shell) listenThroughDisabling(mode string) {
	s.Helper()
	l := s.listen(mode, "--fail", "1")
	subject := uuid.NewString()
	state := func() (updated string, enabled bool) {
		detail := s.ask(http.MethodGet, "/events/destinations/"+l.id, http.StatusOK)
		_, updated, _ = strings.Cut(detail, `"updatedAt":`)
		return updated, strings.Contains(detail, `"status":"enabled"`)
	}
	made, _ := state()
	s.ok("trigger", "news.item.added", "--subject", subject)
	l.next(subject)
	apitest.Eventually(s.T, "the destination is enabled again", func() bool {
		updated, enabled := state()
		return enabled && updated != made
	})
	s.ok("trigger", "news.item.added", "--subject", subject)
	l.next(subject)
	if code, notes := l.stop(); code != 0 || !strings.Contains(notes, "It is enabled again.") {
		s.Errorf("%s: exit %d\n%s", mode, code, notes)
	}
}

// TestListenEndsWithoutKey: a listener without a stream would not be told that its destination is gone.
func TestListenEndsWithoutKey(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	for _, mode := range []string{"--json", "--stream"} {
		org := app.DevelopmentOrganization.String()
		var key struct{ ID, Key string }
		if err := json.Unmarshal([]byte(s.ok("key", "issue", org, "--name", "listen", "--json")), &key,
			json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		l := s.listen(mode, "--key", key.Key)
		s.ok("key", "revoke", org, key.ID)
		if code, notes := l.ended(); code != 1 || !strings.Contains(notes, "key") {
			t.Errorf("%s: exit %d\n%s", mode, code, notes)
		}
	}
}

// TestListenOutlivesTheServer: webhooks come again after a restart of the server.
func TestListenOutlivesTheServer(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"--json", "--stream"} {
		cfg := settings(shortDir(t), apitest.Prepared.URL(t))
		first := serve(t, cfg).ready(t)
		l := shell{T: t, app: first.app, server: first.flags}.listen(mode)
		cfg.HTTPAddr = first.app.APIAddr().String()
		first.stop()
		second := serve(t, cfg).ready(t)
		subject := uuid.NewString()
		shell{T: t, app: second.app, server: second.flags}.ok("trigger", "news.item.added", "--subject", subject)
		l.next(subject)
		if code, notes := l.stop(); code != 0 {
			t.Errorf("%s: exit %d\n%s", mode, code, notes)
		}
	}
}

// TestListenCleansUp closes the terminal, or the pipe, of a listener.
func TestListenCleansUp(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	hangup := make(chan os.Signal, 1) // caught here, so that a child does not inherit that nohup ignores it
	signal.Notify(hangup, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangup) })
	start := func() (*exec.Cmd, io.ReadCloser) {
		c := exec.CommandContext(t.Context(), os.Args[0], append([]string{"listen"}, s.api()...)...)
		c.Env = append(os.Environ(), actAsCarillon+"=1")
		out, err := c.StdoutPipe()
		notes, failed := c.StderrPipe()
		if err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		readUntil(notes, "Ctrl-C")
		go func() { _, _ = io.Copy(io.Discard, notes) }()
		return c, out
	}
	c, _ := start()
	_ = c.Process.Signal(syscall.SIGHUP)
	if err := c.Wait(); err != nil {
		t.Errorf("after SIGHUP: %v", err)
	}
	if now := s.destinations(); strings.Contains(now, `"carillon listen"`) {
		t.Errorf("after SIGHUP: %s", now)
	}
	c, out := start()
	_ = out.Close()
	s.ok("trigger", "news.item.added")
	if err := c.Wait(); err != nil {
		t.Errorf("after the pipe was closed: %v", err)
	}
	if now := s.destinations(); strings.Contains(now, `"carillon listen"`) {
		t.Errorf("after the pipe was closed: %s", now)
	}
}

// TestListenTrustsForward passes webhooks on to a program whose certificate no known authority has signed.
func TestListenTrustsForward(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		c     listenCommand
		taken bool
	}{{listenCommand{}, false}, {listenCommand{Insecure: true}, true}, {listenCommand{CA: file}, true}} {
		trust, err := test.c.trust(nil)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), trust)
		if (err == nil) != test.taken {
			t.Errorf("--insecure=%t --ca %q: %v", test.c.Insecure, test.c.CA, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	if _, err := (&listenCommand{CA: os.Args[0]}).trust(nil); err == nil || !strings.Contains(err.Error(), "--ca must") {
		t.Errorf("a program as --ca: %v", err)
	}
}
