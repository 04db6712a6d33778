package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	must.OK(tb, err)
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
	a := must.Get(app.Open(tb.Context(), cfg, slog.New(slog.NewTextHandler(tb.Output(), nil))))(tb)
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		assert.Is(tb, <-ran, nil, "server")
		a.Close()
	})
	tb.Cleanup(stop)
	key, err := a.DevelopmentKey(ctx) // "carillon serve" makes it before its first answer
	must.OK(tb, err)
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
	must.Eventually(tb, "the server is ready", func() bool {
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
	must.True(s, code == 0 && errors == "", "carillon %v: exit %d\n%s%s", args, code, out, errors)
	return strings.TrimSpace(out)
}

// shows runs a command line that must succeed and print a text.
func (s shell) shows(text string, args ...string) {
	s.Helper()
	s.has(s.ok(args...), text)
}

// matches is shows with a regular expression of lines.
func (s shell) matches(pattern string, args ...string) {
	s.Helper()
	out := s.ok(args...)
	assert.True(s, regexp.MustCompile("(?m)"+pattern).MatchString(out), "carillon %v has no %s:\n%s", args, pattern, out)
}

// prints runs a command line, without the flags of a server, that must succeed and print a text.
func prints(t *testing.T, text string, args ...string) (out string) {
	t.Helper()
	code, out, said := runIn(t.Context(), "", args...)
	must.True(t, code == 0 && strings.Contains(out, text),
		"carillon %v: exit %d\n%s%s\nwant 0 and %q", args, code, out, said, text)
	return out
}

// fails runs a command line, without the flags of a server, that must end with a code and say nothing but a text.
func fails(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	if got, out, said := runIn(t.Context(), "", args...); got != code || out != "" || !strings.Contains(said, text) {
		t.Errorf("carillon %v: exit %d\n%s%s\nwant %d and %q", args, got, out, said, code, text)
	}
}

// refused runs a command line that must fail, saying a text.
func (s shell) refused(text string, args ...string) {
	s.Helper()
	code, out, errors := s.run(args...)
	assert.True(s, code == 1 && strings.Contains(errors, text) && out == "",
		"carillon %v: exit %d\n%s%s\nwant 1 and %q", args, code, out, errors, text)
}

// server runs a server on a directory that collects nothing, and returns the address of its API, its key, and what
// stops it.
func server(t *testing.T, dir, database string, changes ...func(*config.Config)) (url, key string, stop func()) {
	t.Helper()
	cfg := settings(dir, database)
	cfg.Roles = []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver}
	for _, change := range changes {
		change(&cfg)
	}
	s := serve(t, cfg)
	return "http://" + s.app.APIAddr().String(), s.key, s.stop
}

// ask sends a request until it is answered with a status, and returns the answer.
func ask(t *testing.T, key, method, url, body string, want int) (answer string) {
	t.Helper()
	must.Eventually(t, method+" "+url+" is answered", func() bool {
		request := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
		request.Header.Set("Authorization", "Bearer "+key)
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		var status int
		if status, answer = apitest.Ask(t, http.DefaultClient, request); status != want {
			t.Logf("%s %s: %d %s", method, url, status, answer)
		}
		return status == want
	})
	return answer
}
