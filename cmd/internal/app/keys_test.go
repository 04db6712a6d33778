package app_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// sql runs a statement in the process's database.
func (p *process) sql(statement string, arguments ...any) {
	p.Helper()
	conn := must.Get(pgx.Connect(p.Context(), p.cfg.DatabaseURL.Reveal()))(p)
	defer func() { _ = conn.Close(p.Context()) }()
	must.Get(conn.Exec(p.Context(), statement, arguments...))(p)
}

// secret is the newest secret of a destination in full.
func (p *process) secret(ref string) string {
	p.Helper()
	listed := p.call(http.MethodGet, destinations+ref+"/secrets", nil, http.StatusOK)
	entries, ok := listed["secrets"].([]any)
	must.True(p, ok && len(entries) != 0, "secrets = %v", listed)
	first, _ := entries[0].(map[string]any)
	return fmt.Sprint(first["secret"])
}

// shown waits until the read model has a destination, and returns its secret.
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

func (p *process) keyStore() string { return filepath.Join(p.cfg.DataDir, "keys") }

func (p *process) remove(path string) {
	p.Helper()
	must.OK(p, os.RemoveAll(path))
}

// removeAll removes what has names of a pattern, and expects some.
func (p *process) removeAll(pattern string) {
	p.Helper()
	paths, err := filepath.Glob(pattern)
	must.True(p, err == nil && len(paths) != 0, "%s: %q, %v", pattern, paths, err)
	for _, path := range paths {
		p.remove(path)
	}
}

// copied lets Postgres keep the data keys, and a directory their copy, as in a cluster.
func copied(cfg *config.Config) { cfg.KeyStore = config.Address(filepath.Join(cfg.DataDir, "keys")) }

const nowhere = "https://127.0.0.1:1/hook"

func (p *process) masterKey() string {
	p.Helper()
	key := must.Get(os.ReadFile(filepath.Join(p.cfg.DataDir, config.MasterKeyFile)))(p)
	return strings.TrimSpace(string(key))
}

// Each place of the keys is lost in turn, and they come back from another one; then the master key is rotated while the
// server serves. Another master key is refused, and damages nothing.
func TestKeys_placesAndMasterKey(t *testing.T) {
	p := start(t, copied)
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	for what, lose := range map[string]func(){
		"Postgres": func() {
			p.otherMasterKeyRefused()
			p.cfg.DatabaseURL = config.Address(pgtest.URL(t))
		},
		"the key store": func() { p.remove(p.keyStore()) },
		"both copies of the epoch key": func() {
			p.removeAll(filepath.Join(p.keyStore(), "epoch-*"))
			p.removeAll(filepath.Join(p.cfg.DataDir, "epoch-*"))
		},
	} {
		p.close()
		lose()
		p.open()
		assert.Equal(t, p.shown("crm"), want, "%s lost: another secret", what)
	}
	before := p.masterKey()
	status, body := p.admin(http.MethodPost, "/admin/keys/rotate-master")
	must.True(t, status == http.StatusOK, "%d %s", status, body)
	after := p.masterKey()
	assert.True(t, p.secret("crm") == want && after != before, "the master key is the same: %t", after == before)
	p.destination("other", nowhere, 0)
	other := p.secret("other")
	p.close()
	p.cfg.MasterKey = config.Secret(before)
	if err := p.refusedStart(); !strings.Contains(err.Error(), "CARILLON_MASTER_KEY") ||
		strings.Contains(err.Error(), before) {
		t.Errorf("with the old one: %v", err)
	}
	// A rotation that was killed after it had made the next key is finished at the start.
	p.cfg.MasterKey = ""
	next := filepath.Join(p.cfg.DataDir, "master.key.next")
	must.OK(t, os.WriteFile(next, []byte(before+"\n"), 0o600))
	p.open()
	if _, err := os.Stat(next); !errors.Is(err, os.ErrNotExist) || p.masterKey() != before || p.secret("crm") != want ||
		p.secret("other") != other {
		t.Errorf("a rotation that was cut off is not finished: %v", err)
	}
}

// otherMasterKeyRefused starts with another master key, and without its file.
func (p *process) otherMasterKeyRefused() {
	p.Helper()
	p.cfg.MasterKey = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="
	var setting *config.Setting
	if err := p.refusedStart(); !errors.As(err, &setting) || setting.Variable != "CARILLON_MASTER_KEY" ||
		strings.Contains(err.Error(), "BwcH") {
		p.Errorf("another one: error = %v", err)
	}
	p.cfg.MasterKey = ""

	// If the file is gone, the start that is refused leaves none in its place.
	path := filepath.Join(p.cfg.DataDir, config.MasterKeyFile)
	must.OK(p, os.Rename(path, path+".away"))
	if err := p.refusedStart(); err == nil || !strings.Contains(err.Error(), "there is no "+config.MasterKeyFile) {
		p.Errorf("without its file: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		p.Errorf("another master key is in its place: %v", err)
	}
	must.OK(p, os.Rename(path+".away", path))
}

// A server that has lost the keys of a destination and of a client certificate does not start unless that is accepted.
// Then it names them, deliveries that need them fail with words, others go on, and new ones mend it.
func TestKeys_lost(t *testing.T) {
	p := start(t, nil)
	authority := mtlstest.NewAuthority(t, "Receiver's")
	pair := authority.Issue("ours", nil)
	r := wanting(t, p.cfg.DataDir, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert})
	crm, certified := p.connect("crm", r.URL+"/crm", 0), p.connect("certified", r.URL+"/hook", 0)
	p.destination("other", nowhere, 0)
	other := p.secret("other")
	p.certify(pair)
	p.publish()
	p.arrived(r, "ours", 2)
	certificate := p.certificate()
	p.sql("DELETE FROM carillon.data_keys WHERE id IN ($1, $2)", crm, certificate)
	p.close()
	p.remove(filepath.Join(p.keyStore(), crm))
	p.remove(filepath.Join(p.keyStore(), certificate.String()))
	refused := p.refusedStart().Error()
	for _, want := range []string{crm, "--accept-lost-keys", "1 client certificate, of organization " +
		p.organization.String()} {
		assert.True(t, strings.Contains(refused, want), "the start is refused with %s, want %s", refused, want)
	}
	p.cfg.AcceptLostKeys = true
	p.open()
	p.eventually("readiness names both", func() bool {
		status, body := p.admin(http.MethodGet, "/readyz")
		return status == http.StatusOK && strings.Contains(body, crm) &&
			strings.Contains(body, "1 client certificate, of organization")
	})
	assert.True(t, strings.Contains(p.metrics(), "carillon_destinations_without_key 1"), "the metric does not count it")
	listed := p.call(http.MethodGet, strings.TrimSuffix(destinations, "/"), nil, http.StatusOK)
	assert.True(t, listed["total"] == float64(3) && p.secret("other") == other && p.secret("crm") == "unavailable",
		"list = %v", listed)
	const want = "the private key of your organization's client certificate can't be read any more"
	sent, event := len(r.Shown()), p.publish()
	attempts := fmt.Sprint(p.settled(deliveryOf(event, certified), "failed"))
	assert.True(t, strings.Contains(attempts, want), "the attempts say %s", attempts)
	message := fmt.Sprint(lastAttempt(t, p.settled(deliveryOf(event, crm), "failed"))["errorMessage"])
	assert.True(t, strings.Contains(message, "rotate its secret"), "message %q", message)
	tested := fmt.Sprint(p.call(http.MethodPost, destinations+"certified/test", nil, http.StatusOK))
	assert.True(t, strings.Contains(tested, want), "the test says %s", tested)
	p.refused(http.MethodPost, destinations+"crm/test", nil, http.StatusConflict, "CONFLICT")
	assert.Equal(t, len(r.Shown()), sent, "something was sent without the certificate")
	p.certify(pair)
	p.call(http.MethodPost, destinations+"crm/secrets/rotate", nil, http.StatusOK)
	event = p.publish()
	for _, id := range []string{crm, certified} {
		p.settled(deliveryOf(event, id), "succeeded")
	}
	p.arrived(r, "ours", 2)
	p.cfg.AcceptLostKeys = false
	p.restart()
	if status, ready := p.admin(http.MethodGet, "/readyz"); status != http.StatusOK {
		t.Errorf("readiness: %d %s", status, ready)
	}
}
