package app_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/projections/pgtest"
)

// sql runs a statement in the process's database.
func (p *process) sql(statement string, arguments ...any) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.cfg.DatabaseURL.Reveal())
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = conn.Close(p.Context()) }()
	if _, err := conn.Exec(p.Context(), statement, arguments...); err != nil {
		p.Fatal(err)
	}
}

// secret is the newest secret of a destination in full.
func (p *process) secret(ref string) string {
	p.Helper()
	listed := p.call(http.MethodGet, destinations+ref+"/secrets", nil, http.StatusOK)
	entries, ok := listed["secrets"].([]any)
	if !ok || len(entries) == 0 {
		p.Fatalf("secrets = %v", listed)
	}
	first, _ := entries[0].(map[string]any)
	return fmt.Sprint(first["secret"])
}

// shown waits until the read model has a destination, and gives its secret.
func (p *process) shown(ref string) string {
	p.Helper()
	p.eventually("destination "+ref+" is shown", func() bool {
		status, _ := p.try(http.MethodGet, destinations+ref, nil)
		return status == http.StatusOK
	})
	return p.secret(ref)
}

// refusedStart opens the app, and expects that it refuses.
func (p *process) refusedStart() error {
	p.Helper()
	a, err := app.Open(p.Context(), p.cfg, slog.New(slog.NewTextHandler(p.Output(), nil)))
	if err == nil {
		a.Close()
		p.Fatal("it started")
	}
	return err
}

// admin asks the admin listener.
func (p *process) admin(method, path string) (status int, body string) {
	p.Helper()
	token, err := os.ReadFile(filepath.Join(p.cfg.DataDir, config.AdminTokenFile))
	if err != nil {
		p.Fatal(err)
	}
	request, err := http.NewRequestWithContext(p.Context(), method, "http://"+p.app.AdminAddr().String()+path, http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

func (p *process) keyStore() string { return filepath.Join(p.cfg.DataDir, "keys") }

func (p *process) remove(path string) {
	p.Helper()
	if err := os.RemoveAll(path); err != nil {
		p.Fatal(err)
	}
}

const nowhere = "https://127.0.0.1:1/hook"

// TestKeysComeBackFromTheOtherPlace: Postgres is lost, then the key store, then each copy of the epoch key.
func TestKeysComeBackFromTheOtherPlace(t *testing.T) {
	p := start(t, nil)
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	for what, lose := range map[string]func(){
		"Postgres":      func() { p.cfg.DatabaseURL = config.Address(pgtest.URL(t)) },
		"the table":     func() { p.sql("TRUNCATE carillon.data_keys") },
		"the key store": func() { p.remove(p.keyStore()) },
		"the epoch key": func() { p.remove(filepath.Join(p.keyStore(), "epoch.key")) },
		"its copy":      func() { p.remove(filepath.Join(p.cfg.DataDir, "epoch.key")) },
		"both of the copies": func() {
			p.remove(filepath.Join(p.keyStore(), "epoch.key"))
			p.remove(filepath.Join(p.cfg.DataDir, "epoch.key"))
		},
	} {
		p.close()
		lose()
		p.open()
		if got := p.shown("crm"); got != want {
			t.Errorf("%s lost: another secret", what)
		}
	}
}

func TestLostKeysAreNamedAndMendedByRotation(t *testing.T) {
	p := start(t, nil)
	url, arrived := p.endpoint(statuses(http.StatusOK))
	id := p.connect("crm", url, 0)
	p.destination("other", nowhere, 0)
	other := p.secret("other")
	p.close()
	p.remove(p.keyStore())
	p.sql("DELETE FROM carillon.data_keys WHERE id = $1", id)
	if err := p.refusedStart(); !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "--accept-lost-keys") {
		t.Errorf("error = %v", err)
	}
	p.cfg.AcceptLostKeys = true
	p.open()
	p.eventually("readiness names it", func() bool {
		status, body := p.admin(http.MethodGet, "/readyz")
		return status == http.StatusOK && strings.Contains(body, id)
	})
	if _, metrics := p.admin(http.MethodGet, "/metrics"); !strings.Contains(metrics, "carillon_destinations_without_key 1") {
		t.Error("the metric does not count it")
	}
	if got := p.secret("crm"); got != "unavailable" {
		t.Errorf("secret %q", got)
	}
	listed := p.call(http.MethodGet, strings.TrimSuffix(destinations, "/"), nil, http.StatusOK)
	if listed["total"] != float64(2) || p.secret("other") != other {
		t.Errorf("list = %v", listed)
	}
	event := p.publish()
	failed := p.delivery(deliveryOf(event, id), "has failed", func(d map[string]any) bool { return d["attemptCount"] == float64(3) })
	if message := fmt.Sprint(lastAttempt(t, failed)["errorMessage"]); !strings.Contains(message, "rotate its secret") {
		t.Errorf("message %q", message)
	}
	p.refused(http.MethodPost, destinations+"crm/test", nil, http.StatusConflict, "CONFLICT")
	p.call(http.MethodPost, destinations+"crm/secrets/rotate", nil, http.StatusOK)
	p.publish()
	p.await(arrived)
	p.cfg.AcceptLostKeys = false
	p.restart()
}

func TestAnotherMasterKeyIsRefused(t *testing.T) {
	p := start(t, nil)
	p.destination("crm", nowhere, 0)
	p.close()
	p.cfg.MasterKey = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	check := func(what string) {
		t.Helper()
		var setting *config.Setting
		if err := p.refusedStart(); !errors.As(err, &setting) || setting.Variable != "CARILLON_MASTER_KEY" || strings.Contains(err.Error(), "BwcH") {
			t.Errorf("%s: error = %v", what, err)
		}
	}
	check("with the key-check value")
	p.sql("DELETE FROM carillon.key_state")
	check("as an earlier version left it")
	p.cfg.DatabaseURL = config.Address(pgtest.URL(t))
	check("with the key store alone")
	p.cfg.MasterKey = ""
	p.open()
	p.shown("crm")
	p.close()

	// Where the file is gone, the start that is refused leaves none in its place.
	path := filepath.Join(p.cfg.DataDir, config.MasterKeyFile)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := p.refusedStart(); err == nil || !strings.Contains(err.Error(), "there is no "+config.MasterKeyFile) {
		t.Errorf("without its file: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another master key is in its place: %v", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	p.open()
	p.shown("crm")
}

// TestAPrivateClusterWhoseBinariesAreGoneIsCarriedOver: read models are built anew, and keys come from the key store.
func TestAPrivateClusterWhoseBinariesAreGoneIsCarriedOver(t *testing.T) {
	p := start(t, func(cfg *config.Config) {
		cfg.DatabaseURL = ""
		if err := os.Chmod(cfg.DataDir, 0o711); err != nil { //nolint:gosec // Postgres' own user passes through
			t.Error(err)
		}
	})
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	p.close()
	version := filepath.Join(p.cfg.DataDir, "postgres", "pgdata", "PG_VERSION")
	if err := os.WriteFile(version, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	slots, aside := filepath.Join(p.keyStore(), "slots"), filepath.Join(p.cfg.DataDir, "slots")
	if err := os.Rename(slots, aside); err != nil {
		t.Fatal(err)
	}
	if err := p.refusedStart(); !strings.Contains(err.Error(), "only copy of the data keys") {
		t.Errorf("without a key store: %v", err)
	}
	if err := os.Rename(aside, slots); err != nil {
		t.Fatal(err)
	}
	p.open()
	if got := p.shown("crm"); got != want {
		t.Error("another secret")
	}
}

// TestAPrivateClusterOfAnotherMajorIsCarriedOver with real binaries of two majors: the older makes the cluster, then only
// the newer is there.
func TestAPrivateClusterOfAnotherMajorIsCarriedOver(t *testing.T) {
	older, newer := twoMajors(t)
	p := start(t, func(cfg *config.Config) {
		cfg.DatabaseURL, cfg.PostgresBin = "", older
		if err := os.Chmod(cfg.DataDir, 0o711); err != nil { //nolint:gosec // Postgres' own user passes through
			t.Error(err)
		}
	})
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	p.close()
	p.cfg.PostgresBin = newer
	p.open()
	if got := p.shown("crm"); got != want {
		t.Error("another secret")
	}
	p.destination("erp", nowhere, 0)
	p.restart() // the new cluster is the one that counts from now on
	if got := p.shown("crm"); got != want {
		t.Error("after a restart: another secret")
	}
	if kept, err := filepath.Glob(filepath.Join(p.cfg.DataDir, "postgres", "pgdata.version-*", "PG_VERSION")); err != nil || len(kept) != 1 {
		t.Errorf("the old cluster is kept as %q, %v", kept, err)
	}
}

// twoMajors are directories with binaries of two majors of Postgres. CARILLON_TEST_POSTGRES_BIN names one besides those of
// the system's packages.
func twoMajors(t *testing.T) (older, newer string) {
	t.Helper()
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		t.Fatal(err)
	}
	if other := os.Getenv("CARILLON_TEST_POSTGRES_BIN"); other != "" {
		dirs = append(dirs, other)
	}
	found := map[int]string{}
	for _, dir := range dirs {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "postgres"), "--version").Output()
		var major int
		if _, scanned := fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &major); err == nil && scanned == nil && major >= 15 {
			found[major] = dir
		}
	}
	majors := slices.Sorted(maps.Keys(found))
	if len(majors) < 2 {
		t.Skipf("needs two majors of Postgres, and has %v: name another one's binaries by CARILLON_TEST_POSTGRES_BIN", majors)
	}
	return found[majors[0]], found[majors[len(majors)-1]]
}

func (p *process) masterKey() string {
	p.Helper()
	key, err := os.ReadFile(filepath.Join(p.cfg.DataDir, config.MasterKeyFile))
	if err != nil {
		p.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

func TestTheMasterKeyIsRotatedWhileServing(t *testing.T) {
	p := start(t, nil)
	p.destination("crm", nowhere, 0)
	want, before := p.secret("crm"), p.masterKey()
	if status, body := p.admin(http.MethodPost, "/admin/keys/rotate-master"); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	after := p.masterKey()
	if p.secret("crm") != want || after == before {
		t.Errorf("the master key is the same: %t", after == before)
	}
	p.destination("other", nowhere, 0)
	p.restart()
	if p.secret("crm") != want {
		t.Error("after a restart: another secret")
	}
	p.close()
	p.cfg.MasterKey = config.Secret(before)
	if err := p.refusedStart(); !strings.Contains(err.Error(), "CARILLON_MASTER_KEY") || strings.Contains(err.Error(), before) {
		t.Errorf("with the old one: %v", err)
	}
	// One that was killed after it had made the next key is finished at the start.
	p.cfg.MasterKey = ""
	next := filepath.Join(p.cfg.DataDir, "master.key.next")
	if err := os.WriteFile(next, []byte(before+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.open()
	if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) || p.masterKey() != before || p.secret("crm") != want {
		t.Errorf("a rotation that was cut off is not finished: %v", err)
	}
}

// TestADamagedValueIsUnavailableAndTheOthersAreServed: it is damaged in the read model, under a sound data key.
func TestADamagedValueIsUnavailableAndTheOthersAreServed(t *testing.T) {
	p := start(t, nil)
	id := p.destination("crm", nowhere, 0)
	p.destination("other", nowhere, 0)
	other := p.secret("other")
	p.shown("crm")
	p.sql("UPDATE destinations.secrets SET sealed = set_byte(sealed, 29, 255 - get_byte(sealed, 29)) WHERE destination = $1", id)
	p.sql("UPDATE destinations.destinations SET headers = '\\x01', address = '\\x01' WHERE id = $1", id)
	listed := p.call(http.MethodGet, strings.TrimSuffix(destinations, "/"), nil, http.StatusOK)
	items, _ := listed["items"].([]any)
	if len(items) != 2 || p.secret("crm") != "unavailable" || p.secret("other") != other {
		t.Errorf("list = %v", listed)
	}
	config, _ := p.call(http.MethodGet, destinations+"crm", nil, http.StatusOK)["config"].(map[string]any)
	if headers, _ := config["headers"].(map[string]any); headers["unavailable"] != "unavailable" || config["url"] != "unavailable" {
		t.Errorf("config = %v", config)
	}
	p.refused(http.MethodPost, destinations+"crm/test", nil, http.StatusConflict, "CONFLICT")
}
