package config_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// parse reads a command line as the serve command does, defaults included.
func parse(t *testing.T, args ...string) (config.Config, error) {
	t.Helper()
	var c config.Config
	parser, err := kong.New(&c, kong.Resolvers(config.FromFiles()), kong.Exit(func(int) { t.Fatal("kong exits") }))
	must.OK(t, err)
	_, err = parser.Parse(args)
	return c, err
}

// TestLibrariesLogAsTheProcess is not parallel: it is about the one logger of the process.
func TestLibrariesLogAsTheProcess(t *testing.T) {
	output, flags := log.Writer(), log.Flags()
	defer func() { log.SetOutput(output); log.SetFlags(flags) }()
	for level, want := range map[string]string{"info": "", "debug": `"level":"DEBUG","msg":"Unsolicited response"}`} {
		path := filepath.Join(t.TempDir(), level)
		file := must.Get(os.Create(path))(t)
		config.Logging{LogLevel: level, LogFormat: "json"}.ProcessLogger(file)
		log.Print("Unsolicited response")
		must.OK(t, file.Close())
		got, err := os.ReadFile(path)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(got)), want) || want == "" && len(got) > 0 {
			t.Errorf("at level %s: %q, %v; want …%s", level, got, err, want)
		}
	}
}

func TestErrorsNameTheSetting(t *testing.T) {
	t.Parallel()
	tests := []struct{ flag, value, want string }{
		{"http-addr", "8080", "CARILLON_HTTP_ADDR (--http-addr) must be host:port"},
		{"admin-addr", "127.0.0.1:8080", "CARILLON_ADMIN_ADDR (--admin-addr) must differ"},
		{"admin-hosts", "carillon.internal:8081", `CARILLON_ADMIN_HOSTS (--admin-hosts) must list names without port, ` +
			`such as carillon.internal; one is "carillon.internal:8081"`},
		{"data-dir", "", "CARILLON_DATA_DIR (--data-dir) must name"},
		{"roles", "api,cook", "--roles"},
		{"eventstore-url", "http://u:hunter2@host", "CARILLON_EVENTSTORE_URL (--eventstore-url) must look like"},
		{"database-url", "mysql://u:hunter2@host", "CARILLON_DATABASE_URL (--database-url) must look like"},
		{"database-url", "postgres://u:hunter2@host:port/x", "CARILLON_DATABASE_URL (--database-url) must look like"},
		{"master-key", "hunter2", "CARILLON_MASTER_KEY (--master-key) must be 32 bytes"},
		{"admin-token", "hunter2", "CARILLON_ADMIN_TOKEN (--admin-token) must have at least 32"},
		{"delivery-allow-cidrs", "10.0.0.0/33", `"10.0.0.0/33" is not an address range`},
		{"egress-deny-cidrs", "10.0.0.0/33", `"10.0.0.0/33" is not an address range`},
		{"delivery-deny-cidrs", "10.0.0.0/33", `"10.0.0.0/33" is not an address range`},
		{"egress-addr", "10.0.0.0/8", `"10.0.0.0/8" is not an address`},
		{"egress-addr", "fe80::1%lo", `is not an address`},
		{"egress-ca", "/nowhere.pem", "CARILLON_EGRESS_CA (--egress-ca) can't be read: "},
		{"egress-ca", "config_test.go", "CARILLON_EGRESS_CA (--egress-ca) must name a file with certificates in PEM"},
		{"egress-addr", "0.0.0.0", "CARILLON_EGRESS_ADDR (--egress-addr) must name an address of this machine; 0.0.0.0 is " +
			"that of none"},
		{"egress-addr", "127.0.0.1,127.0.0.2", "CARILLON_EGRESS_ADDR (--egress-addr) may name one address of IPv4 and one " +
			"of IPv6"},
		{"egress-addr", "192.0.2.1", "CARILLON_EGRESS_ADDR (--egress-addr) must name an address of this machine; it can't " +
			"send from 192.0.2.1"},
		{"collect-allow-cidrs", "localhost", `"localhost" is not an address range`},
		{"console-origins", "https://portal.example.org,http://portal.example.org", "is not an origin"},
		{"console-origins", "https://portal.example.org/settings", "is not an origin"},
		{"console-origins", "https://*.example.org", "is not an origin"},
		{"trusted-proxies", "10.0.0.0/8,x", `"x" is not an address range`},
		{"delivery-retry-schedule", "5s,soon", "--delivery-retry-schedule"},
		{"delivery-retry-schedule", "5s,-5s", "CARILLON_DELIVERY_RETRY_SCHEDULE (--delivery-retry-schedule) must list waits"},
		{"delivery-timeout", "1ms", "CARILLON_DELIVERY_TIMEOUT (--delivery-timeout) must be from"},
		{"auto-disable-after", "0", "CARILLON_AUTO_DISABLE_AFTER (--auto-disable-after) must be from 1"},
		{"auto-disable-min-streak", "-1s", "CARILLON_AUTO_DISABLE_MIN_STREAK (--auto-disable-min-streak) must not be " +
			"negative"},
		{"retain-deliveries", "167h", "CARILLON_RETAIN_DELIVERIES (--retain-deliveries) must be 0 (forever) or at least"},
		{"retain-happenings", "167h", "CARILLON_RETAIN_HAPPENINGS (--retain-happenings) must be 0 (forever) or at least"},
		{"retain-deliveries", "-1h", "CARILLON_RETAIN_DELIVERIES (--retain-deliveries) must be 0 (forever) or at least"},
		{"relevance", "perhaps", `"perhaps" is neither on nor off`},
		{"operator-webhook", "ops.example.com", "CARILLON_OPERATOR_WEBHOOK (--operator-webhook) must look like https://"},
		{"operator-webhook", "https://ops.example.com", "CARILLON_OPERATOR_WEBHOOK_SECRET (--operator-webhook-secret) must " +
			"be whsec_"},
		{"operator-webhook-secret", "hunter2", "CARILLON_OPERATOR_WEBHOOK (--operator-webhook) is missing"},
		{"tls-cert", "cert.pem", "CARILLON_TLS_KEY (--tls-key) is missing"},
		{"tls-key", "key.pem", "CARILLON_TLS_CERT (--tls-cert) is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.flag+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			_, err := parse(t, "--"+tt.flag+"="+tt.value)
			must.True(t, err != nil && strings.Contains(err.Error(), tt.want), "error = %v\nwant it to contain %q", err, tt.want)
			assert.True(t, !strings.Contains(err.Error(), "hunter2"), "the error shows a secret: %v", err)
		})
	}
}

func TestVariablesAreRead(t *testing.T) {
	byDefault := must.Get(parse(t))(t)
	assert.Equal(t, byDefault.Unreachable(), "", "a warning of the default")
	t.Setenv("CARILLON_HTTP_ADDR", "0.0.0.0:9000")
	t.Setenv("CARILLON_DELIVERY_RETRY_SCHEDULE", "1s,2s,3s")
	t.Setenv("CARILLON_DELIVERY_ALLOW_CIDRS", "127.0.0.0/8, ::1")
	t.Setenv("CARILLON_DELIVERY_TIMEOUT", "") // as compose leaves it
	must.OK(t, config.DropEmpty(os.Environ(), os.Unsetenv))
	c := must.Get(parse(t))(t)
	assert.True(t, c.HTTPAddr == "0.0.0.0:9000" && len(c.DeliveryRetrySchedule) == 3 &&
		c.DeliveryTimeout == 30*time.Second, "config = %+v", c)
	assert.Equal(t, c.DeliveryAllowCIDRs.String(), "127.0.0.0/8,::1/128", "ranges")
	if !strings.Contains(c.Unreachable(), "CARILLON_TLS_CERT") {
		t.Errorf("plain HTTP on all addresses needs a warning, got %q", c.Unreachable())
	}
	t.Setenv("CARILLON_AUTO_DISABLE_AFTER", "many")
	if _, err := parse(t); err == nil || !strings.Contains(err.Error(), "CARILLON_AUTO_DISABLE_AFTER") {
		t.Errorf("error = %v, want it to name the variable", err)
	}
}

func TestRangesAreRead(t *testing.T) {
	t.Parallel()
	var ranges config.Prefixes
	must.OK(t, ranges.UnmarshalText([]byte(" 127.0.0.0/8, 10.1.2.3/8,::1 ,192.168.1.7,::ffff:172.16.0.0/108,"+
		"::ffff:10.9.9.9,fd00::/8,")))
	assert.Equal(t, ranges.String(), "127.0.0.0/8,10.0.0.0/8,::1/128,192.168.1.7/32,172.16.0.0/12,10.9.9.9/32,fd00::/8",
		"ranges")
	if err := ranges.UnmarshalText([]byte(" ")); err != nil || len(ranges) != 0 {
		t.Errorf("empty list: %v, %v", ranges, err)
	}
	for _, bad := range []string{"10.0.0.0/33", "ten", "fe80::1%eth0", "fe80::%eth0/10", "10.0.0/8", "::ffff:0:0/90"} {
		err := ranges.UnmarshalText([]byte("127.0.0.0/8," + bad))
		assert.True(t, err != nil && strings.Contains(err.Error(), `"`+bad+`"`),
			"%s: the error does not name the entry: %v", bad, err)
	}
}

func TestSecretsNeverShow(t *testing.T) {
	t.Parallel()
	c := config.Config{
		AdminToken:    "hunter2",
		MasterKey:     "hunter2",
		DatabaseURL:   "postgres://bob:hunter2@db:5432/x?password=hunter2",
		EventStoreURL: "esdb://bob:hunt@er2:hunter2@n1,n2:2113?userKeyFile=hunter2",

		SealTo:          "https://heads.example.org/hunter2",
		OperatorWebhook: "https://hooks.example.org/services/hunter2#hunter2",
	}
	var logged bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(handler).Info("config", "config", c, "token", c.AdminToken, "database", c.DatabaseURL)
	}
	_, _ = fmt.Fprintf(&logged, "%v %+v %#v %s", c, c, c, c.EventStoreURL)
	assert.True(t, !strings.Contains(logged.String(), "hunter2"), "a secret shows: %s", logged.String())
	if got, want := c.DatabaseURL.String(), "postgres://bob:[hidden]@db:5432/x"; got != want {
		t.Errorf("address = %s, want %s", got, want)
	}
	if got, want := c.SealTo.String(), "https://heads.example.org/…"; got != want {
		t.Errorf("address = %s, want %s", got, want)
	}
}

func TestSecretsAreMadeOnceAndKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "data")
	results := make(chan config.Config, 8)
	for range cap(results) { // as when several processes start at once
		go func() {
			c := config.Config{DataDir: dir}
			assert.OK(t, c.EnsureSecrets())
			results <- c
		}()
	}
	first := <-results
	for range cap(results) - 1 {
		other := <-results
		assert.True(t, other.MasterKey == first.MasterKey && other.AdminToken == first.AdminToken &&
			other.SealKey == first.SealKey, "two processes made two values")
	}
	assert.Equal(t, len(must.Get(first.Master())(t)), 32, "master key … bytes")
	for _, name := range []string{config.MasterKeyFile, config.AdminTokenFile, config.SealKeyFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		assert.True(t, err == nil && info.Mode().Perm() == 0o600, "%s: %v, %v", name, info, err)
	}
	entries, _ := os.ReadDir(dir)
	assert.True(t, len(entries) == 3, "left behind: %v", entries)
	token, err := (&config.Client{DataDir: dir}).Token()
	assert.True(t, err == nil && token == first.AdminToken.Reveal(), "the client finds another token: %v", err)
}

func TestSecretsInBadShapeAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		file, content string
		mode          os.FileMode
		want          string
	}{
		"open to others": {config.AdminTokenFile, strings.Repeat("x", 64), 0o644, "chmod 600"},
		"short token":    {config.AdminTokenFile, "short", 0o600, "delete it"},
		"zeroed token":   {config.AdminTokenFile, strings.Repeat("\x00", 64), 0o600, "delete it"},
		"torn key":       {config.MasterKeyFile, "AAAA", 0o600, "restore it"},
		"torn seal key":  {config.SealKeyFile, "AAAA", 0o600, "restore it"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, tt.file)
			must.OK(t, os.WriteFile(path, []byte(tt.content), tt.mode))
			c := config.Config{DataDir: dir}
			err := c.EnsureSecrets()
			assert.True(t, err != nil && strings.Contains(err.Error(), tt.want), "error = %v, want it to say %q", err, tt.want)
			kept, _ := os.ReadFile(path)
			assert.True(t, string(kept) == tt.content, "the file was changed to %q", kept)
		})
	}
}

// TestHostileDataDirectory: a key or token that another user may have written is refused, and so is a directory that
// others may write to.
func TestHostileDataDirectory(t *testing.T) {
	t.Parallel()
	chown := func(path string) error {
		if os.Geteuid() != 0 {
			return os.Chmod(path, 0o606) //nolint:gosec // only root can give a file away: the other fault
		}
		return os.Chown(path, 12345, 12345)
	}
	open := func(path string) error { return os.Chmod(path, 0o777) }      //nolint:gosec // that is the fault
	openGroup := func(path string) error { return os.Chmod(path, 0o770) } //nolint:gosec // as above
	tests := map[string]struct {
		name    string
		spoil   func(path string) error
		refused bool
	}{
		"as it is made":       {"", func(string) error { return nil }, false},
		"another's directory": {"", chown, true},
		"a directory for all": {"", open, true},
		"a directory of a group": {"", func(path string) error {
			if group() < 0 {
				return open(path)
			}
			return errors.Join(os.Chown(path, -1, group()), openGroup(path))
		}, true},
		"a group of the owner": {"", func(path string) error {
			return errors.Join(os.Chown(path, -1, os.Getuid()), openGroup(path))
		}, false},
		"another's master key":  {config.MasterKeyFile, chown, true},
		"another's next key":    {config.MasterKeyFile + ".next", chown, true},
		"another's admin token": {config.AdminTokenFile, chown, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			made := config.Config{DataDir: dir}
			must.OK(t, made.EnsureSecrets())
			must.OK(t, os.WriteFile(filepath.Join(dir, config.MasterKeyFile+".next"), []byte(made.MasterKey.Reveal()), 0o600))
			must.OK(t, tt.spoil(filepath.Join(dir, tt.name)))
			again := config.Config{DataDir: dir}
			if err := again.EnsureSecrets(); (err != nil) != tt.refused ||
				tt.refused && !strings.Contains(err.Error(), "data directory: ") {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// group is one that this user may give a file to, and is not the user's own; root may give to any.
func group() int {
	if os.Getuid() == 0 {
		return 12345
	}
	groups, _ := os.Getgroups()
	for _, id := range groups {
		if id != os.Getuid() {
			return id
		}
	}
	return -1
}

// TestRestoredDirectoryWaits: a restored directory sends and visits nothing until it is started once with the flag to
// take over.
func TestRestoredDirectoryWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check := func(after bool, roles ...string) (bool, error) {
		return (&config.Config{DataDir: dir, AfterRestore: after, Roles: roles}).CheckRestored()
	}
	if restored, err := check(false, config.RoleDeliver); restored || err != nil {
		t.Errorf("a directory that was never restored: %v, %v", restored, err)
	}
	must.OK(t, config.MarkRestored(dir, false))
	assert.True(t, assert.Err(check(true, config.RoleAPI)) != nil, "a restore that was not finished is served")
	must.OK(t, config.MarkRestored(dir, true))
	for _, role := range []string{config.RoleDispatch, config.RoleDeliver, config.RoleCollect} {
		_, err := check(false, config.RoleAPI, role)
		assert.True(t, err != nil && strings.Contains(err.Error(), "--after-restore"), "%s: %v", role, err)
	}
	if restored, err := check(false, config.RoleAPI, config.RoleProject); !restored || err != nil {
		t.Errorf("a look at it: %v, %v", restored, err)
	}
	if restored, err := check(true, config.RoleDeliver); !restored || err != nil {
		t.Errorf("with --after-restore: %v, %v", restored, err)
	}
	must.OK(t, (&config.Config{DataDir: dir}).TakeOver())
	if restored, err := check(false, config.RoleDeliver); restored || err != nil {
		t.Errorf("the next start: %v, %v", restored, err)
	}
}

func TestClientFindsTheServer(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:8081": "http://127.0.0.1:8081", "0.0.0.0:8081": "http://127.0.0.1:8081", ":8081": "http://127.0.0.1:8081",
		"[::]:8081": "http://127.0.0.1:8081", "[fd00::1]:8081": "http://[fd00::1]:8081",
		"https://admin.example/": "https://admin.example",
	} {
		assert.Equal(t, must.Get((&config.Client{AdminAddr: address}).BaseURL())(t), want, "%s", address)
	}
	var setting *config.Setting
	if _, err := (&config.Client{AdminAddr: "8081"}).BaseURL(); !errors.As(err, &setting) ||
		setting.Variable != "CARILLON_ADMIN_ADDR" {
		t.Errorf("error = %v", err)
	}
	if _, err := (&config.Client{DataDir: t.TempDir()}).Token(); err == nil ||
		!strings.Contains(err.Error(), "carillon serve") {
		t.Errorf("error = %v, want it to say what to do", err)
	}
}

// TestHostileNetworkReachesNoDevelopmentServer: with --dev any client that reaches the server gets a key and sends
// webhooks to its loopback.
func TestHostileNetworkReachesNoDevelopmentServer(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{
		"127.0.0.1:9080": true, "127.8.0.1:8080": true, "[::1]:8080": true, "localhost:8080": true,
		"[::ffff:127.0.0.1]:80": true,
		"0.0.0.0:8080":          false, ":8080": false, "[::]:8080": false, "192.0.2.1:8080": false, "[fe80::1%lo]:80": false,
		"carillon.example:80": false,
	}
	for address, may := range tests {
		for _, flag := range []string{"http-addr", "admin-addr"} {
			_, err := parse(t, "--dev", "--"+flag+"="+address)
			named := err != nil && strings.Contains(err.Error(), "CARILLON_DEV") &&
				strings.Contains(err.Error(), "CARILLON_"+strings.ToUpper(strings.ReplaceAll(flag, "-", "_")))
			if may != (err == nil) || !may && !named {
				t.Errorf("--dev with --%s=%s: %v", flag, address, err)
			}
			assert.Is(t, assert.Err(parse(t, "--"+flag+"="+address)), nil, "--%s=%s alone", flag, address)
		}
	}
}

// Both names of the ranges that nothing reaches are read, the old one as well.
func TestEgressDenyKeepsItsOldName(t *testing.T) {
	const ranges = "192.0.2.0/24"
	for _, flag := range []string{"--egress-deny-cidrs", "--delivery-deny-cidrs"} {
		c, err := parse(t, flag, ranges)
		assert.True(t, err == nil && c.EgressDenyCIDRs.String() == ranges, "%s: %s, %v", flag, c.EgressDenyCIDRs, err)
	}
	for _, variable := range []string{"CARILLON_DELIVERY_DENY_CIDRS", "CARILLON_EGRESS_DENY_CIDRS"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, ranges)
			c, err := parse(t)
			assert.True(t, err == nil && c.EgressDenyCIDRs.String() == ranges, "%s, %v", c.EgressDenyCIDRs, err)
		})
	}
}

func TestEgressRoots_authorityFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.OK(t, os.WriteFile(file, append([]byte("\uFEFF"), text...), 0o600))
	for _, given := range []*x509.CertPool{nil, x509.NewCertPool()} {
		roots := must.Get((&config.Config{EgressCA: file}).EgressRoots(given))(t)
		must.Get(server.Certificate().Verify(x509.VerifyOptions{Roots: roots, DNSName: "example.com"}))(t)
	}
	must.OK(t, os.WriteFile(file, server.Certificate().Raw, 0o600))
	if _, err := (&config.Config{EgressCA: file}).EgressRoots(nil); err == nil ||
		!strings.Contains(err.Error(), "is binary (DER)") {
		t.Errorf("a file in DER: %v", err)
	}
	if roots, err := (&config.Config{}).EgressRoots(nil); roots != nil || err != nil {
		t.Errorf("without a file: %v, %v", roots, err)
	}
}
