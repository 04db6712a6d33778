package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/command/credential"
	"carillon/projections/pgtest"
)

// shell runs command lines against a whole server in this process.
type shell struct {
	*testing.T
	app    *app.App
	server []string // the flags that name it
}

func TestMain(m *testing.M) {
	if os.Getenv(actAsCarillon) != "" {
		main()
		return
	}
	os.Exit(mainWithLocks(m))
}

// mainWithLocks runs the tests in a rare time zone, with a directory for the locks of listeners, and removes it.
func mainWithLocks(m *testing.M) int {
	time.Local = time.FixedZone("", 5*60*60+45*60)
	dir, err := os.MkdirTemp("", "carillon-locks-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Setenv("XDG_RUNTIME_DIR", dir); err != nil {
		panic(err)
	}
	return suite.Main(m)
}

// serving is a server that runs.
type serving struct {
	app   *app.App
	key   string   // of the development organization
	flags []string // that name it
	stop  func()
}

// development is the server that all tests of the package share. It may collect from this machine.
var development = suite.Fixture(func(tb testing.TB) serving {
	tb.Helper()
	return serve(tb, settings(shortDir(tb), apitest.Prepared.URL(tb))).ready(tb)
})

// open returns a shell beside the server of the package.
func open(t *testing.T) shell {
	t.Helper()
	s := development(t)
	return shell{T: t, app: s.app, server: s.flags}
}

// openWith returns a shell beside a server of the test's own.
func openWith(t *testing.T, change func(*config.Config)) shell {
	t.Helper()
	cfg := settings(shortDir(t), apitest.Prepared.URL(t))
	change(&cfg)
	s := serve(t, cfg).ready(t)
	return shell{T: t, app: s.app, server: s.flags}
}

// shortDir is a directory whose name leaves room for a socket's, which t.TempDir's does not.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp(pgtest.FastDir(), "carillon") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// settings returns those of a development server with all roles.
func settings(dir, database string) config.Config {
	return config.Config{
		HTTPAddr:    "127.0.0.1:0",
		AdminAddr:   "127.0.0.1:0",
		DataDir:     dir,
		DatabaseURL: config.Address(database),
		Dev:         true,
		Roles: []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver,
			config.RoleCollect},
		DeliveryTimeout:  30 * time.Second,
		AutoDisableAfter: 100,
	}
}

// serve runs a server until stop or the end of the test.
func serve(tb testing.TB, cfg config.Config) serving {
	tb.Helper()
	a, err := app.Open(tb.Context(), cfg, slog.New(slog.NewTextHandler(tb.Output(), nil)))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ran; err != nil {
			tb.Errorf("server: %v", err)
		}
		a.Close()
	})
	tb.Cleanup(stop)
	key, err := a.DevelopmentKey(ctx) // "carillon serve" makes it before its first answer
	if err != nil {
		tb.Fatal(err)
	}
	return serving{
		app:   a,
		key:   key,
		flags: []string{"--data-dir", cfg.DataDir, "--admin-addr", a.AdminAddr().String()},
		stop:  stop,
	}
}

// ready waits until the server says that it is.
func (s serving) ready(tb testing.TB) serving {
	tb.Helper()
	apitest.Eventually(tb, "the server is ready", func() bool {
		code, _, _ := runIn(tb.Context(), "", append([]string{"status"}, s.flags...)...)
		return code == 0
	})
	return s
}

// run runs a command line with the flags that name the server.
func (s shell) run(args ...string) (code int, out, errors string) {
	return runIn(s.Context(), "", append(args, s.server...)...)
}

func runIn(ctx context.Context, in string, args ...string) (code int, out, errors string) {
	var stdout, stderr bytes.Buffer
	code = run(ctx, args, terminal{in: strings.NewReader(in), out: &stdout, err: &stderr})
	return code, stdout.String(), stderr.String()
}

// ok runs a command line that must succeed, and returns its output.
func (s shell) ok(args ...string) string {
	s.Helper()
	code, out, errors := s.run(args...)
	if code != 0 || errors != "" {
		s.Fatalf("carillon %v: exit %d\n%s%s", args, code, out, errors)
	}
	return strings.TrimSpace(out)
}

// refused runs a command line that must fail, saying a text.
func (s shell) refused(text string, args ...string) {
	s.Helper()
	code, out, errors := s.run(args...)
	if code != 1 || !strings.Contains(errors, text) || out != "" {
		s.Errorf("carillon %v: exit %d\n%s%s\nwant 1 and %q", args, code, out, errors, text)
	}
}

func TestOperatorsDay(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	reader := s.ok("org", "create", "Reader")
	if list := s.ok("org", "list"); !strings.Contains(list, "Town hall") || !strings.Contains(list, org) ||
		!strings.HasPrefix(list, "ID ") {
		t.Errorf("org list:\n%s", list)
	}
	var issued struct{ ID, Key string }
	if err := json.Unmarshal([]byte(s.ok("key", "issue", org, "--name", "crm", "--expires", "720h", "--json")),
		&issued, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if key, ok := credential.Parse(credential.APIKey, issued.Key); !ok || key.ID != issued.ID {
		t.Errorf("issued %q", issued)
	}
	s.ok("key", "issue", org)
	s.ok("key", "revoke", org, issued.ID)
	keys := s.ok("key", "list", org[:8])
	if !regexp.MustCompile(`(?m)^`+issued.ID+` +crm +.* revoked `).MatchString(keys) ||
		strings.Count(keys, " valid") != 1 || strings.Contains(keys, issued.Key) {
		t.Errorf("key list:\n%s", keys)
	}
	if list := s.ok("key", "list", org, "--json"); strings.Count(list, `"id"`) != 2 ||
		strings.Count(list, `"revokedAt": null`) != 1 {
		t.Errorf("key list --json:\n%s", list)
	}
	link := s.ok("console", org[:8], "--as", "ann", "--scopes", "read,write")
	if !strings.Contains(link, "/console/enter?token=") {
		t.Errorf("console: %s", link)
	}
	s.refused("organization not found", "console", uuid.NewString(), "--as", "ann")
	s.refused("organization not found", "key", "list", uuid.NewString())
	s.refused("key not found", "key", "revoke", org, "nobody00")
	s.refused("organization not found", "key", "issue", uuid.NewString())
	s.refused("neither a time", "key", "issue", org, "--expires", "tomorrow")

	source := s.ok("source", "add", "site", "https://example.org/events", "--timezone", "Europe/Rome")
	if again := s.ok("source", "add", "site", "https://example.org/events", "--timezone",
		"Europe/Rome"); again != source {
		t.Errorf("the same source twice: %s and %s", source, again)
	}
	s.ok("source", "add", "instagram", "@townhall")
	if list := s.ok("source", "list"); !strings.Contains(list, "https://example.org/events") ||
		!strings.Contains(list, "townhall") {
		t.Errorf("source list:\n%s", list)
	}
	s.ok("source", "collect", source)
	s.refused("source not found", "source", "collect", uuid.NewString())
	s.refused("url must be absolute", "source", "add", "site", "example.org")

	feed := uuid.NewString()
	if got := s.ok("feed", "register", "news", org, "Local news", "--id", feed); got != feed {
		t.Errorf("registered %s, want %s", got, feed)
	}
	s.ok("feed", "share", "news", feed, reader)
	if got := s.ok("feed", "unshare", "news", feed, reader); !strings.Contains(got, "no longer shared") {
		t.Errorf("unshare: %s", got)
	}
	s.refused("feed not found", "feed", "share", "event", feed, reader)
}

func TestPublishFromAFileAndFromStandardInput(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	var lines strings.Builder
	for i := range 50 {
		_, _ = fmt.Fprintf(&lines, `{"id":"%s","type":"factcheck.status.changed","source":"/f","subject":"c-%d",`+
			`"organizationId":"%s","data":{"id":"c-%d","status":"queued"}}`+"\n", uuid.New(), i, org, i)
	}
	file := filepath.Join(t.TempDir(), "events.ndjson")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := s.ok("publish", file); got != "published 50 events" {
			t.Errorf("publish: %s", got)
		}
	}
	code, out, errors := runIn(t.Context(), lines.String(),
		append([]string{"publish", "-", "--json"}, s.server...)...)
	if code != 0 || !strings.Contains(out, `"published": 50`) {
		t.Errorf("publish -: exit %d\n%s%s", code, out, errors)
	}
	bad := filepath.Join(t.TempDir(), "bad.ndjson")
	if err := os.WriteFile(bad, []byte(lines.String()+`{"type":"no.such","source":"/x","data":{}}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	s.refused("line 51: ", "publish", bad)
	fresh := uuid.NewString()
	other := strings.Replace(lines.String(), `"status":"queued"`, `"status":"running"`, 1)
	changed := filepath.Join(t.TempDir(), "changed.ndjson")
	unsent := `{"id":"` + fresh + strings.Split(other, "\n")[1][len(`{"id":"`)+len(fresh):] + "\n"
	if err := os.WriteFile(changed, []byte(unsent+other), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refused("line 2: id "+other[len(`{"id":"`):][:len(fresh)]+" is published already and differs in data",
		"publish", changed)
	s.refused("(0 events were published", "publish", changed)
	s.refused("no such file", "publish", file+".missing")
}

func TestProjectionsAreShownAndRebuilt(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	current := regexp.MustCompile(`(?m)^organizations +readModel +running +- +\d+ `)
	apitest.Eventually(t, "organizations are shown as up to date", func() bool { // other tests write meanwhile
		return current.MatchString(s.ok("projections", "status"))
	})
	if got := s.ok("projections", "rebuild",
		"organizations"); !regexp.MustCompile(`^organizations is rebuilt: \d+ events`).MatchString(got) {
		t.Errorf("rebuild: %s", got)
	}
	if list := s.ok("org", "list"); !strings.Contains(list, org) {
		t.Errorf("after the rebuild:\n%s", list)
	}
	s.refused("no projection has this name", "projections", "rebuild", "unknown")
	if got := s.ok("status"); !strings.HasPrefix(got, "ready") {
		t.Errorf("status: %s", got)
	}
	var status struct {
		Ready bool `json:"ready"`
	}
	if err := json.Unmarshal([]byte(s.ok("status", "--json")), &status); err != nil || !status.Ready {
		t.Errorf("status --json: %+v, %v", status, err)
	}
}

func TestWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, _, errors := runIn(t.Context(), "", "org", "list", "--data-dir", dir)
	if code != 1 || !strings.Contains(errors, "carillon serve") {
		t.Errorf("no token: exit %d %s", code, errors)
	}
	code, _, errors = runIn(t.Context(), "", "status", "--data-dir", dir, "--admin-token", "hunter2",
		"--admin-addr", "127.0.0.1:1")
	if code != 1 || !strings.Contains(errors, "no server answers at http://127.0.0.1:1: start one") ||
		strings.Contains(errors, "hunter2") {
		t.Errorf("no server: exit %d %s", code, errors)
	}
}

func TestListenersDiffer(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, args := range [][]string{{"status"}, {"org", "list"}, {"publish", "-"},
		{"audit", "destination", uuid.NewString(), "--export", "-"}} {
		args = append(args, "--data-dir", s.server[1], "--admin-addr", s.app.APIAddr().String())
		code, out, errors := runIn(t.Context(), "", args...)
		if code != 1 || out != "" || !strings.Contains(errors, s.app.APIAddr().String()+
			" is the address of Carillon's API, not of its admin API: name that one (CARILLON_ADMIN_ADDR") {
			t.Errorf("carillon %v: exit %d\n%s%s", args, code, out, errors)
		}
	}
}

func TestHelpAndMistakes(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--help"}, {"serve", "--help"}, {"org", "create", "--help"}, {"key", "issue", "--help"},
		{"source", "add", "--help"}, {"feed", "share", "--help"},
		{"publish", "--help"}, {"projections", "rebuild", "--help"}, {"audit", "destination", "--help"},
		{"auditor", "issue", "--help"}, {"status", "--help"}, {"demo", "--help"}, {"version"},
	} {
		code, out, errors := runIn(t.Context(), "", args...)
		if code != 0 || out == "" || errors != "" || strings.Contains(out, "%!") || strings.Contains(out, "${") {
			t.Errorf("carillon %v: exit %d\n%s%s", args, code, out, errors)
		}
	}
	for text, args := range map[string][]string{
		"unexpected argument nope":     {"nope"},
		"CARILLON_TLS_KEY (--tls-key)": {"serve", "--tls-cert", "x.pem"},
		"--delivery-timeout":           {"serve", "--delivery-timeout", "soon"},
		"<org>":                        {"key", "issue", "not-a-uuid"},
		"can't be used together": {"audit", "destination", "22222222-2222-4222-8222-222222222222", "--at",
			"x", "--export", "-"},
		"must be one of":         {"source", "add", "radio", "x"},
		"CARILLON_ADMIN_TOKEN":   {"serve", "--admin-token", "hunter2"},
		"\"10.0.0.0/99\" is not": {"serve", "--trusted-proxies", "10.0.0.0/99"},
		"expected \"<name>\"":    {"org", "create"},
	} {
		code, out, errors := runIn(t.Context(), "", args...)
		if code != 2 || out != "" || !strings.Contains(errors, text) || !strings.Contains(errors, "--help") ||
			strings.Contains(errors, "hunter2") {
			t.Errorf("carillon %v: exit %d\n%s%s\nwant 2 and %q", args, code, out, errors, text)
		}
	}
}

// Arguments and answers of a server that an error repeats control no terminal.
func TestErrorsShowNoEscapes(t *testing.T) {
	t.Parallel()
	var out, complaint strings.Builder
	if code := run(t.Context(), []string{"org", "limits", "0d00", "fee\x1b[31mds\x07=1", "\u202eevil"},
		terminal{out: &out, err: &complaint}); code == 0 {
		t.Error("it went through")
	}
	for _, line := range strings.Split(strings.TrimSuffix(complaint.String(), "\n"), "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", line)
		}
	}
	complaint.Reset()
	fail(terminal{err: &complaint}, errors.New("the server says \x1b]0;owned\x07\nand \x9b31m"), 1)
	if got := complaint.String(); strings.ContainsAny(got, "\x1b\x07\u009b") || strings.Count(got, "\n") != 2 {
		t.Errorf("%q", got)
	}
}

func TestHelp_asCommand(t *testing.T) {
	t.Parallel()
	_, want, _ := runIn(t.Context(), "", "org", "limits", "--help")
	if code, out, _ := runIn(t.Context(), "", "help", "org", "limits"); code != 0 || out != want {
		t.Errorf("help org limits: exit %d, %s", code, out)
	}
	if code, out, _ := runIn(t.Context(), "", "help"); code != 0 ||
		!strings.Contains(out, "Usage: carillon <command>") {
		t.Errorf("help: exit %d, %s", code, out)
	}
}
