package main

import (
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
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
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
		code, notes := l.ended()
		assert.True(t, code == 1 && strings.Contains(notes, how.says), "%+v: exit %d\n%s", how, code, notes)
	}
	now := s.destinations()
	assert.True(t, !strings.Contains(now, `"carillon listen"`), "left: %s", now)
}

// TestListenEnablesItsDestination: failures of the program that webhooks go on to don't make the listener deaf.
func TestListenEnablesItsDestination(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(c *config.Config) { c.AutoDisableAfter = 1 })
	for _, mode := range []string{"--json", "--stream"} {
		l, subject := s.listen(mode, "--fail", "1"), uuid.NewString()
		s.ok("trigger", "news.item.added", "--subject", subject)
		l.next(subject)
		must.Eventually(t, "the destination is enabled again", func() bool {
			return strings.Contains(l.said.String(), "It is enabled again.")
		})
		s.ok("trigger", "news.item.added", "--subject", subject)
		l.next(subject)
		code, notes := l.stop()
		assert.True(t, code == 0, "%s: exit %d\n%s", mode, code, notes)
	}
}

// TestListenEndsWithoutKey: a listener without a stream would not learn that its destination is gone.
func TestListenEndsWithoutKey(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	for _, mode := range []string{"--json", "--stream"} {
		org := app.DevelopmentOrganization.String()
		var key struct{ ID, Key string }
		must.OK(t, json.Unmarshal([]byte(s.ok("key", "issue", org, "--name", "listen", "--json")), &key,
			json.MatchCaseInsensitiveNames(true)))
		l := s.listen(mode, "--key", key.Key)
		s.ok("key", "revoke", org, key.ID)
		code, notes := l.ended()
		assert.True(t, code == 1 && strings.Contains(notes, "key"), "%s: exit %d\n%s", mode, code, notes)
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
		code, notes := l.stop()
		assert.True(t, code == 0, "%s: exit %d\n%s", mode, code, notes)
	}
}

// listener starts carillon listen in a process, and waits until it has its destination.
func (s shell) listener() (*exec.Cmd, io.ReadCloser) {
	s.Helper()
	c := exec.CommandContext(s.Context(), os.Args[0], append([]string{"listen"}, s.api()...)...)
	c.Env = append(os.Environ(), actAsCarillon+"=1")
	out := must.Get(c.StdoutPipe())(s)
	notes := must.Get(c.StderrPipe())(s)
	must.OK(s, c.Start())
	readUntil(notes, "Ctrl-C")
	go func() { _, _ = io.Copy(io.Discard, notes) }()
	return c, out
}

// TestListenCleansUp closes the terminal, or the pipe, of a listener.
func TestListenCleansUp(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	hangup := make(chan os.Signal, 1) // caught here, so that a child does not inherit that nohup ignores it
	signal.Notify(hangup, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangup) })
	c, _ := s.listener()
	_ = c.Process.Signal(syscall.SIGHUP)
	must.OK(t, c.Wait())
	if now := s.destinations(); strings.Contains(now, `"carillon listen"`) {
		t.Errorf("after SIGHUP: %s", now)
	}
	c, out := s.listener()
	_ = out.Close()
	s.ok("trigger", "news.item.added")
	must.OK(t, c.Wait())
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
	must.OK(t, os.WriteFile(file, authority, 0o600))
	for _, test := range []struct {
		c     listenCommand
		taken bool
	}{{listenCommand{}, false}, {listenCommand{Insecure: true}, true}, {listenCommand{CA: file}, true}} {
		trust := must.Get(test.c.trust(nil))(t)
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), trust)
		assert.Equal(t, err == nil, test.taken, "--insecure=%t --ca %q: %v", test.c.Insecure, test.c.CA, err)
		if err == nil {
			_ = conn.Close()
		}
	}
	if _, err := (&listenCommand{CA: os.Args[0]}).trust(nil); err == nil || !strings.Contains(err.Error(), "--ca must") {
		t.Errorf("a program as --ca: %v", err)
	}
}

// TestListenPassesAnyAnswerBack has a program behind the stream whose answer is no text: bytes of ISO 8859-1, a
// compressed body, several cookies. It sees the names of headers as they were sent.
func TestListenPassesAnyAnswerBack(t *testing.T) {
	t.Parallel()
	s := open(t)
	server, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // net/http would change names
	must.OK(t, err)
	t.Cleanup(func() { _ = server.Close() })
	var body bytes.Buffer
	packed := gzip.NewWriter(&body)
	_, _ = io.WriteString(packed, "who is this?")
	_ = packed.Close()
	seen := make(chan string, 100)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			head := readUntil(conn, "\r")
			seen <- head
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 401 No\r\nX-Name: Gr\xfc\xdfe\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"+
				"Content-Encoding: gzip\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", body.Len(), body.String())
			_ = conn.Close()
		}
	}()
	l := s.listen("--stream", "--types", "factcheck.*", "--forward", server.Addr().String()) // no scheme
	s.send(http.MethodPatch, "/events/destinations/"+l.id, `{"config":{"headers":{"x-tenant-ID":"7"}}}`, http.StatusOK)
	subject := uuid.NewString()
	s.ok("trigger", "factcheck.status.changed", "--subject", subject)
	got := l.next(subject)
	if head := <-seen; !strings.Contains(head, "\r\nwebhook-id: ") || !strings.Contains(head, "\r\nx-tenant-ID: 7\r\n") {
		t.Errorf("forwarded\n%s", head)
	}
	must.Eventually(t, "the answer is on record", func() bool {
		detail := s.ask(http.MethodGet, "/events/deliveries/"+got.ID, http.StatusOK)
		return strings.Contains(detail, `"responseBody":"who is this?"`) && strings.Contains(detail, `x-name: Grüße\n`) &&
			strings.Contains(detail, `set-cookie: [masked]\nset-cookie: [masked]\n`)
	})
	_, notes := l.stop()
	hint := " answered 401. The signature is by whsec_…"
	assert.True(t, strings.Contains(notes, hint), "%q is not in\n%s", hint, notes)
}

// TestListenSecretStays: a program that verifies is started once, whatever the listener takes webhooks from.
func TestListenSecretStays(t *testing.T) {
	t.Parallel()
	s := open(t)
	secret := s.listenSecret()
	l := s.listen("--stream")
	assert.True(t, strings.Contains(l.beginning, secret+"\n"), "%s is not in\n%s", secret, l.beginning)
	elsewhere := func(key string) string {
		_, out, _ := runIn(t.Context(), "", "listen", "--print-secret", "--http-addr", "https://carillon.example",
			"--key", key)
		return out
	}
	first := elsewhere("ck_1")
	if again := elsewhere("ck_1"); !strings.HasPrefix(first, "whsec_") || again != first || elsewhere("ck_2") == first {
		t.Errorf("%q, then %q", first, again)
	}
}

// TestListenRemovesLeftovers kills a listener, whose destination the next one removes.
func TestListenRemovesLeftovers(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	first, _ := s.listener()
	_ = first.Process.Kill()
	_ = first.Wait()
	left := s.destinations()
	must.Equal(t, strings.Count(left, `"carillon listen"`), 1, "left: %s", left)
	l := s.listen()
	if now := s.destinations(); strings.Count(now, `"carillon listen"`) != 1 || now == left {
		t.Errorf("while the second listens: %s", now)
	}
	l.stop()
	if now := s.destinations(); strings.Contains(now, `"carillon listen"`) {
		t.Errorf("at the end: %s", now)
	}
}

// TestListenBesideAnotherSpelling listens twice at one server, by two names of this machine.
func TestListenBesideAnotherSpelling(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	_, port, err := net.SplitHostPort(s.app.APIAddr().String())
	must.OK(t, err)
	first := s.listen()
	second := s.listen("--http-addr", "localhost:"+port)
	assert.Equal(t, strings.Count(s.destinations(), `"carillon listen"`), 2, "while two listen")
	first.stop()
	second.stop()
}
