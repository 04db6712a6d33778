package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// The error names the variable, the expected value, and the given one.
func TestMistakesNameTheVariable(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--roles=cook": `CARILLON_ROLES (--roles) must be one of ` +
			`"api","project","dispatch","deliver","collect"; it is "cook"`,
		"--dev=perhaps": `CARILLON_DEV (--dev) must be true or false; it is "perhaps"`,
		"--auto-disable-after=x": `CARILLON_AUTO_DISABLE_AFTER (--auto-disable-after) must be a ` +
			`whole number; it is "x"`,
		"--delivery-timeout=soon": `CARILLON_DELIVERY_TIMEOUT (--delivery-timeout) must be a time ` +
			`such as 30s, 5m or 2h; it is "soon"`,
		"--delivery-retry-schedule=5s,later": `CARILLON_DELIVERY_RETRY_SCHEDULE (--delivery-retry-schedule) ` +
			`must be a time such as 30s, 5m or 2h; it is "later"`,
		"--trusted-proxies=x": `CARILLON_TRUSTED_PROXIES (--trusted-proxies): "x" is not an address range`,
		"--log-level=loud": `CARILLON_LOG_LEVEL (--log-level) must be one of "debug","info","warn","error"; ` +
			`it is "loud"`,
		"--http-addr=8080": `CARILLON_HTTP_ADDR (--http-addr) must be host:port`,
	} {
		code, _, errors := runIn(t.Context(), "", "serve", flag)
		if code != 2 || !strings.HasPrefix(errors, "carillon: "+want) ||
			!strings.HasSuffix(errors, "See \"carillon serve --help\"\n") {
			t.Errorf("%s: exit %d\n%swant %s", flag, code, errors, want)
		}
	}
	code, _, errors := runIn(t.Context(), "", "audit", "destination", "123")
	if code != 2 || !strings.Contains(errors, `<id>: "123" is not an id, which looks like`) ||
		!strings.Contains(errors, "carillon audit destination --help") {
		t.Errorf("exit %d\n%s", code, errors)
	}
}

func TestWithoutArgumentsThereIsHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}} {
		if code, out, errors := runIn(t.Context(), "", args...); code != 0 || errors != "" ||
			!strings.HasPrefix(out, "Usage: carillon") {
			t.Errorf("carillon %v: exit %d\n%s%s", args, code, out, errors)
		}
	}
	for _, args := range [][]string{{"--version"}, {"version"}, {"version", "--json"}} {
		if code, out, errors := runIn(t.Context(), "", args...); code != 0 || errors != "" ||
			!strings.Contains(out, "go1.") {
			t.Errorf("carillon %v: exit %d\n%s%s", args, code, out, errors)
		}
	}
}

func TestMistypedVariablesAreNoticed(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&commandLine{}, kong.Vars{"version": ""})
	if err != nil {
		t.Fatal(err)
	}
	got := unknownVariables(parser.Model,
		[]string{"CARILLON_HTTP_ADR=x", "CARILLON_HTTP_ADDR=x", "CARILLON_EVENTSTORE_USER=x", "HOME=/root",
			"CARILLON_PORT=tcp://10.0.0.1:8080", "CARILLON_SERVICE_HOST=10.0.0.1", "CARILLON_SERVICE_PORT=8080",
			"CARILLON_SERVICE_PORT_HTTP=8080", "CARILLON_PORT_8080_TCP=tcp://10.0.0.1:8080",
			"CARILLON_PORT_8080_TCP_PROTO=tcp", "CARILLON_PORT_8080_TCP_PORT=8080", "CARILLON_PORT_8080_TCP_ADDR=10.0.0.1",
			"CARILLON_ADMIN_SERVICE_HOST=10.0.0.1", "CARILLON_ADMIN_PORT_8081_TCP_ADDR=10.0.0.1",
			"CARILLON_HTTP_PORT=8080", "CARILLON_PORT=8080"})
	if !slices.Equal(got, []string{"CARILLON_HTTP_ADR", "CARILLON_HTTP_PORT", "CARILLON_PORT"}) {
		t.Errorf("unknown: %v", got)
	}
}
