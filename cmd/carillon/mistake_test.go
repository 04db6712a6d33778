package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/wire"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The error names the variable or the argument, the expected value and the given one, and no secret.
func TestMistakesNameTheVariable(t *testing.T) {
	t.Parallel()
	for text, args := range map[string][]string{
		`CARILLON_ROLES (--roles) must be one of "api","project","dispatch","deliver","collect"; it is "cook"`: {
			"serve", "--roles=cook"},
		`CARILLON_DEV (--dev) must be true or false; it is "perhaps"`: {"serve", "--dev=perhaps"},
		`CARILLON_AUTO_DISABLE_AFTER (--auto-disable-after) must be a whole number; it is "x"`: {
			"serve", "--auto-disable-after=x"},
		`CARILLON_DELIVERY_TIMEOUT (--delivery-timeout) must be a time such as 30s, 5m or 2h; it is "soon"`: {
			"serve", "--delivery-timeout=soon"},
		`(--delivery-retry-schedule) must be a time such as 30s, 5m or 2h; it is "later"`: {
			"serve", "--delivery-retry-schedule=5s,later"},
		`CARILLON_TRUSTED_PROXIES (--trusted-proxies): "x" is not an address range`: {"serve", "--trusted-proxies=x"},
		`CARILLON_LOG_LEVEL (--log-level) must be one of "debug","info","warn","error"; it is "loud"`: {
			"serve", "--log-level=loud"},
		`CARILLON_HTTP_ADDR (--http-addr) must be host:port`: {"serve", "--http-addr=8080"},
		"CARILLON_TLS_KEY (--tls-key)":                       {"serve", "--tls-cert", "x.pem"},
		"CARILLON_ADMIN_TOKEN":                               {"serve", "--admin-token", "hunter2"},
		"unexpected argument nope":                           {"nope"},
		`<org>: "not-a-uuid" is not`:                         {"key", "issue", "not-a-uuid"},
		`<id>: "123" is not an id, which looks like`:         {"happening", "show", "123"},
		"can't be used together": {"audit", "destination", "22222222-2222-4222-8222-222222222222", "--at", "1h",
			"--export", "-"},
		"must be one of":               {"source", "add", "radio", "x"},
		`expected "<name>"`:            {"org", "create"},
		"--forward must be a URL":      {"listen", "--forward", "ftp://localhost:3000"},
		"--retry-after must be":        {"listen", "--retry-after", "1ms"},
		"--status must be 200":         {"listen", "--status", "99"},
		"--fail must be 0":             {"listen", "--fail=-1"},
		"--delay must be":              {"listen", "--delay", "1h"},
		"WEBHOOK_SECRET (--secret)":    {"listen", "--secret", "hunter2"},
		"is not an id":                 {"listen", "--feed", "news"},
		"--data must be a JSON object": {"trigger", "news.item.added", "--data", "[1]"},
		"--count must be 1 to":         {"trigger", "news.item.added", "--count", "0"},
		"carillon: --every must be":    {"events", "tail", "--every", "1ms"},
		"--org can't enable": {
			"destination", "enable", "crm", "--org", "22222222-2222-4222-8222-222222222222"},
		"--reason must have at most":            {"org", "create", "x", "--reason", strings.Repeat("x", 501)},
		"--reason must be plain text":           {"trigger", "news.item.added", "--reason", "a\nb"},
		`--expires: "soon" is neither`:          {"key", "issue", "0d00", "--expires", "soon"},
		"an argument is empty":                  {"backup", ""},
		`See "carillon deliveries show --help"`: {"delivery", "show", "nope"},
	} {
		code, out, errors := runIn(t.Context(), "", args...)
		assert.True(t, code == 2 && out == "" && strings.HasPrefix(errors, "carillon: ") && strings.Contains(errors, text) &&
			strings.HasSuffix(errors, " --help\"\n") && !strings.Contains(errors, "hunter2"),
			"carillon %v: exit %d\n%s%s\nwant 2 and %q", args, code, out, errors, text)
	}
}

func TestWithoutArgumentsThereIsHelp(t *testing.T) {
	t.Parallel()
	prints(t, "Usage: carillon")
	for _, args := range [][]string{{"--version"}, {"version"}, {"version", "--json"}} {
		prints(t, "go1.", args...)
	}
	want := prints(t, "", "org", "limits", "--help")
	assert.Equal(t, prints(t, "", "help", "org", "limits"), want, "help org limits")
	prints(t, "Usage: carillon <command>", "help")
}

func TestMistypedVariablesAreNoticed(t *testing.T) {
	t.Parallel()
	parser := must.Get(kong.New(&commandLine{}, words()))(t)
	got := unknownVariables(parser.Model,
		[]string{"CARILLON_HTTP_ADR=x", "CARILLON_HTTP_ADDR=x", "CARILLON_EVENTSTORE_USER=x", "HOME=/root",
			"CARILLON_PORT=tcp://10.0.0.1:8080", "CARILLON_SERVICE_HOST=10.0.0.1", "CARILLON_SERVICE_PORT=8080",
			"CARILLON_SERVICE_PORT_HTTP=8080", "CARILLON_PORT_8080_TCP=tcp://10.0.0.1:8080",
			"CARILLON_PORT_8080_TCP_PROTO=tcp", "CARILLON_PORT_8080_TCP_PORT=8080", "CARILLON_PORT_8080_TCP_ADDR=10.0.0.1",
			"CARILLON_ADMIN_SERVICE_HOST=10.0.0.1", "CARILLON_ADMIN_PORT_8081_TCP_ADDR=10.0.0.1",
			"CARILLON_HTTP_PORT=8080", "CARILLON_PORT=8080"})
	assert.Slices(t, got, []string{"CARILLON_HTTP_ADR", "CARILLON_HTTP_PORT", "CARILLON_PORT"}, "unknown")
}

func TestTimeFlag(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	zone := time.FixedZone("", 5*3600+45*60)
	for given, want := range map[timeFlag]string{
		"":                     "",
		"1h":                   "2026-11-21T11:00:00.000000Z",
		"1h30m":                "2026-11-21T10:30:00.000000Z",
		"7d":                   "2026-11-14T12:00:00.000000Z",
		"2026-11-21":           "2026-11-20T18:15:00.000000Z",
		"2026-11-21T12:00:00Z": "2026-11-21T12:00:00Z",
		"2026-11-21T12:00:00.000000Z~4b1d1f5e-2a3c-5d4e-8f60-718293a4b5c6": "2026-11-21T12:00:00.000000Z~" +
			"4b1d1f5e-2a3c-5d4e-8f60-718293a4b5c6",
		"1w":    "2026-11-14T12:00:00.000000Z",
		"1d12h": "2026-11-20T00:00:00.000000Z",
		"1w1d":  "2026-11-13T12:00:00.000000Z",
	} {
		assert.Is(t, given.Validate(), nil, "%s", given)
		assert.Equal(t, given.text(now, zone), want, "%s", given)
	}
	for _, wrong := range []string{"-1h", "xd", "1d-1h", "1d1w", "yesterday", "d"} {
		fails(t, 2, "must be how long ago", "events", "list", "--since="+wrong)
	}
}

func TestTriggerPublishesExamples(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, name := range typeNames() {
		code, out, errors := s.run("trigger", name, "--count", "2", "--subject", uuid.NewString())
		reserved := name == "event.item.updated"
		if !reserved && (code != 0 || !strings.Contains(out, "published 2 "+name)) || reserved && code == 0 {
			t.Errorf("trigger %s: exit %d\n%s%s", name, code, out, errors)
		}
	}
	_, command, _ := strings.Cut(s.ok("trigger", "research.status.changed"), "carillon ")
	args := strings.Fields(command)
	list := s.asked("events", "list", "--type", "research.*")
	must.True(t, len(args) >= 3 && strings.Contains(list, args[2]), "%q is not at once in\n%s", command, list)
	s.has(s.asked(args[:3]...), "research.status.changed", "example/1")
	s.refused("the types are news.item.added", "trigger", "news.item")
	s.refused("data/status", "trigger", "factcheck.status.changed", "--data", `{"status":"done"}`)
}

// A command's own validation replaces the one of its reason, unless it calls it.
func TestReasonFlagIsChecked(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, leaf := range model(t).Leaves(false) {
		if !leaf.Target.FieldByName("because").IsValid() {
			continue
		}
		checked++
		leaf.Target.FieldByName("Reason").SetString("a\nb")
		command, ok := leaf.Target.Addr().Interface().(interface{ Validate() error })
		assert.True(t, ok && command.Validate() != nil && strings.Contains(command.Validate().Error(), "--reason must be"),
			"%s takes a reason with a line break", leaf.Path())
	}
	assert.True(t, checked >= 30, "%d commands have a reason", checked)
}

func TestReasonFlagIsSent(t *testing.T) {
	t.Parallel()
	const id = "0d000000-0000-4000-8000-000000000001"
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get(wire.ReasonHeader))
		_, _ = w.Write([]byte(`{"success":true,"data":{"id":"` + id + `","deliveryId":"` + id + `"}}`))
	}))
	t.Cleanup(server.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	commands := [][]string{
		{"org", "create", "Town hall"}, {"keys", "renew"}, {"deliveries", "replay", id, "--org", id}, {"audit", "seal"},
		{"delivery", "retry", id, "--org", id}, {"destination", "recover", "crm", "--org", id},
		{"destination", "enable", "crm", "--key", "ck_x", "--http-addr", address},
	}
	for _, args := range commands {
		var out, errors bytes.Buffer
		args = append(args, "--reason", "ticket 7", "--admin-addr", address, "--admin-token", "secret")
		if code := run(t.Context(), args, terminal{in: &bytes.Buffer{}, out: &out, err: &errors}); code != 0 {
			t.Errorf("%v: exit %d\n%s", args, code, errors.String())
		}
	}
	want := slices.Repeat([]string{"ticket 7"}, len(commands))
	assert.True(t, slices.Equal(got, want), "the server got %q", got)
}

// A script must not take an interrupted backup or verification for a whole one.
func TestInterruptedCommandFails(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]int{"org list": 1, "events tail": 0} {
		ctx, interrupt := context.WithCancel(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}))
		t.Cleanup(server.Close)
		args := append(strings.Fields(command), "--admin-addr", strings.TrimPrefix(server.URL, "http://"),
			"--admin-token", "secret")
		if command == "events tail" {
			args = append(args, "--org", "0d000000-0000-4000-8000-000000000001")
		}
		code, _, said := runIn(ctx, "", args...)
		assert.True(t, code == want && strings.Contains(said, "interrupted") == (want != 0),
			"%s: exit %d\n%s", command, code, said)
	}
}

func TestVersionNamesCommitAndDate(t *testing.T) {
	t.Parallel()
	built := app.Build{Version: "1.0.0", Commit: "c978e10ad4d15e29a5dec5bec9277ead110c2731",
		Date: "2026-11-26T15:49:26Z"}
	if got := describe(built); !strings.HasPrefix(got, "carillon 1.0.0 (commit c978e10ad4d1, 2026-11-26T15:49:26Z, go") {
		t.Errorf("version: %s", got)
	}
	if got := describe(app.Build{Version: "dev"}); !strings.HasPrefix(got, "carillon dev (go") {
		t.Errorf("version without a commit: %s", got)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--help"}, {"serve", "--help"}, {"org", "create", "--help"}, {"key", "issue", "--help"},
		{"source", "add", "--help"}, {"feed", "share", "--help"},
		{"publish", "--help"}, {"projections", "rebuild", "--help"}, {"audit", "destination", "--help"},
		{"auditor", "issue", "--help"}, {"status", "--help"}, {"demo", "--help"}, {"version"},
	} {
		code, out, errors := runIn(t.Context(), "", args...)
		assert.True(t, code == 0 && out != "" && errors == "" && !strings.Contains(out, "%!") && !strings.Contains(out, "${"),
			"carillon %v: exit %d\n%s%s", args, code, out, errors)
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
		assert.True(t, !strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
	}
	complaint.Reset()
	fail(terminal{err: &complaint}, errors.New("the server says \x1b]0;owned\x07\nand \x9b31m"), 1)
	got := complaint.String()
	assert.True(t, !strings.ContainsAny(got, "\x1b\x07\u009b") && strings.Count(got, "\n") == 2, "%q", got)
}
