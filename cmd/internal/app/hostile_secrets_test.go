package app_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// places are the files, and the log, in which a secret lies open, plain or encoded.
func (s thief) places(log *apitest.Buffer, what string) (where []string) {
	for _, form := range []string{what, base64.StdEncoding.EncodeToString([]byte(what)), fmt.Sprintf("%x", what)} {
		where = append(where, s.has([]byte(form))...)
		if strings.Contains(log.String(), form) {
			where = append(where, "the log")
		}
	}
	return where
}

// burgled is a server whose files, those of its Postgres and whose log are looked through.
type burgled struct {
	*process
	log     *apitest.Buffer
	conn    *pgx.Conn
	cluster string // the directory of Postgres
}

func newBurgled(t *testing.T, change func(*config.Config)) *burgled {
	t.Helper()
	t.Parallel()
	database := pgtest.NewServer(t)
	b := &burgled{log: &apitest.Buffer{}}
	b.conn = must.Get(pgx.Connect(t.Context(), database.URL()))(t)
	t.Cleanup(func() { _ = b.conn.Close(context.Background()) })
	must.OK(t, b.conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&b.cluster))
	b.process = newProcess(t, func(cfg *config.Config) {
		cfg.DatabaseURL = config.Address(database.URL())
		change(cfg)
	}, b.log)
	return b
}

// look steals all files, and expects no secret in them. Open texts are found in the event store and in Postgres, where
// the secrets would be as well.
func (b *burgled) look(when string, open, secrets []string) thief {
	b.Helper()
	// so that the heap is in its files as well as in the log
	must.Get(b.conn.Exec(b.Context(), "CHECKPOINT"))(b)
	files := b.steal(b.cfg.DataDir, b.cluster)
	for _, text := range open {
		store, postgres := false, false
		for _, path := range files.has([]byte(text)) {
			store, postgres = store || strings.Contains(path, "/eventstore/"), postgres || strings.HasPrefix(path, b.cluster)
		}
		if !store || !postgres {
			b.Errorf("%s: %q is found in %v; the test shows nothing", when, text, files.has([]byte(text)))
		}
	}
	for _, secret := range secrets {
		where := files.places(b.log, secret)
		assert.True(b, len(where) == 0, "%s: a secret is in %v", when, where)
	}
	return files
}

// The secret part of an address, and a private key, are in no file of the event store, the key store and Postgres, its
// log included, and in nothing that is logged. After a deletion, with the master key in hand, nothing opens the secrets
// of a destination; after a replacement, nothing opens a private key.
func TestHostileSecrets_lieNowhereOpen(t *testing.T) {
	for home, change := range map[string]func(*config.Config){"directory": func(*config.Config) {}, "postgres": copied} {
		t.Run(home, func(t *testing.T) {
			if testing.Short() && home == "directory" {
				t.Skip("the other home has all that this one has")
			}
			newBurgled(t, change).lieNowhereOpen(home == "postgres")
		})
	}
}

func (b *burgled) lieNowhereOpen(inPostgres bool) {
	b.Helper()
	t := b.TB
	inPath, inQuery, alone, name := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	hook := b.deliversToSecrets(name, "services/T0/"+inPath+"?key="+inQuery, alone)
	gone, stays := uuid.MustParse(b.destination("gone", nowhere, 0)), uuid.MustParse(b.destination("stays", nowhere, 0))
	want := b.secret("stays")
	first, second := b.showsCertificates()
	secrets := []string{inPath, inQuery, alone}
	for _, pair := range []mtlstest.Pair{first, second} {
		for _, part := range keyParts(t, pair) {
			secrets = append(secrets, string(part))
		}
	}
	old := b.certificate()
	before := b.look("at first", []string{name, "CN=first"}, secrets)
	file, heap := false, false // the log may have it in a compressed page
	for _, path := range before.opened(gone) {
		file, heap = file || strings.HasSuffix(path, "keys/"+gone.String()), heap || strings.HasPrefix(path, b.cluster)
	}
	if !file || heap != inPostgres || len(before.opened(old)) == 0 {
		t.Fatalf("before, the thief finds keys in %v and %v; the test would show nothing", before.opened(gone),
			before.opened(old))
	}

	b.certify(second)
	b.call(http.MethodDelete, destinations+"gone", nil, http.StatusOK)
	named := b.destinationID(name)
	b.call(http.MethodDelete, destinations+name, nil, http.StatusOK)
	if status, body := b.admin(http.MethodPost, "/admin/keys/renew"); status != http.StatusOK {
		t.Fatalf("renew: %d %s", status, body)
	}
	assert.Equal(t, b.secret("stays"), want, "the other's secret")
	after := b.look("after deletions", []string{"CN=second"}, secrets)
	for _, owner := range []uuid.UUID{gone, old} {
		if where := after.opened(owner); len(where) > 0 {
			t.Errorf("a shredded key opens: %v", where)
		}
	}
	if len(after.opened(stays)) == 0 || len(after.opened(b.certificate())) == 0 {
		t.Error("other keys are not found either: the test shows nothing")
	}
	for _, epoch := range before.epochs() {
		if where := after.has(epoch); len(where) > 0 {
			t.Errorf("an old epoch key is in %v", where)
		}
	}
	if _, audit := b.admin(http.MethodGet, "/admin/audit/destinations/"+named); strings.Contains(audit, inPath) ||
		!strings.Contains(audit, hook+"services/…") {
		t.Errorf("after the deletion, the audit shows %s", audit)
	}
	b.restart()
	assert.Equal(t, b.shown("stays"), want, "after a restart the other's secret")
	b.refused(http.MethodGet, fmt.Sprint(destinations, gone), nil, http.StatusNotFound, "NOT_FOUND")
}

func (p *process) destinationID(ref string) string {
	p.Helper()
	return fmt.Sprint(p.call(http.MethodGet, destinations+ref, nil, http.StatusOK)["id"])
}

// deliversToSecrets uses addresses with secrets in every way: attempts that fail and succeed, tests, validations and
// changes.
func (b *burgled) deliversToSecrets(name, path, alone string) (hook string) {
	b.Helper()
	hook, arrived := b.endpoint(statuses(500, 500, 200))
	hook = strings.TrimSuffix(hook, "hook")
	url := hook + path
	id := b.connect(name, url, 0)
	b.connect("alone", "https://127.0.0.1:1/"+alone, 0) // no server listens: connecting fails
	b.connect("unknown", "https://hooks.example.invalid/services/"+alone, 0)
	b.call(http.MethodPost, destinations+"alone/test", nil, http.StatusOK)
	b.call(http.MethodPost, destinations+"unknown/test", nil, http.StatusOK)
	b.call(http.MethodPost, destinations+"validate",
		map[string]any{"config": map[string]any{"url": "https://127.0.0.1:1/" + alone}}, http.StatusOK)
	b.call(http.MethodPatch, destinations+name, map[string]any{"name": "Moved", "config": map[string]any{"url": url}},
		http.StatusOK)
	b.refused(http.MethodPatch, destinations+name,
		map[string]any{"config": map[string]any{"url": "http://10.0.0.1/" + alone}}, http.StatusBadRequest,
		"VALIDATION_FAILED")
	event := b.publish()
	for range 3 {
		b.await(arrived)
	}
	b.settled(deliveryOf(event, id), "succeeded")
	if got := b.url(name); got != url {
		b.Errorf("the owner is shown %s, want %s", got, url)
	}
	secret, _, _ := strings.Cut(strings.TrimPrefix(path, "services/T0/"), "?")
	_, audit := b.admin(http.MethodGet, "/admin/audit/destinations/"+id)
	assert.True(b, !strings.Contains(audit, secret) && strings.Contains(audit, hook+"services/…"),
		"the audit shows %s", audit)
	return hook
}

// showsCertificates has a receiver that wants a client certificate refuse none and a stranger's, and take the first of
// two, which stays.
func (b *burgled) showsCertificates() (first, second mtlstest.Pair) {
	b.Helper()
	t := b.TB
	authority, stranger := mtlstest.NewAuthority(t, "Receiver's"), mtlstest.NewAuthority(t, "Stranger's")
	first, second = authority.Issue("first", nil), authority.Issue("second", nil)
	r := wanting(t, b.cfg.DataDir, &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  authority.Pool(),
	})
	id := b.connect("certified", r.URL+"/hook", 0)
	shows := func(want string) {
		b.Helper()
		tested := fmt.Sprint(b.call(http.MethodPost, destinations+"certified/test", nil, http.StatusOK))
		assert.True(b, strings.Contains(tested, want), "the test says %s", tested)
		attempts := fmt.Sprint(b.settled(deliveryOf(b.publish(), id), "failed"))
		assert.True(b, strings.Contains(attempts, want), "the attempts say %s", attempts)
	}
	shows("client certificate")
	b.certify(stranger.Issue("foreign", nil))
	shows("your organization's")
	if len(r.Shown()) > 0 {
		b.Errorf("it let in %v", r.Shown())
	}
	_, err := b.operator().SetClientCertificate(b.Context(), b.organization, first.Chain, second.Key)
	assert.True(b, err != nil, "another's key is taken")
	b.certify(first)
	b.publish()
	b.arrived(r, "first", 1)
	validated := b.call(http.MethodPost, destinations+"validate",
		map[string]any{"config": map[string]any{"url": r.URL + "/hook"}}, http.StatusOK)
	assert.True(b, validated["reachable"] == true, "validation says %v", validated)
	b.call(http.MethodPost, destinations+"certified/test", nil, http.StatusOK)
	b.arrived(r, "first", 3)
	return first, second
}
