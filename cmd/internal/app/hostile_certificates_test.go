package app_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/clientcertificate"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/dev"
	"carillon/command/mtls/mtlstest"
	"carillon/projections/pgtest"
)

var townHall = uuid.MustParse("0d000000-0000-4000-8000-000000000001") // the organization of development

// wanting is a receiver that is trusted through the development authority, and asks for certificates as it is told.
func wanting(t *testing.T, dataDir string, want *tls.Config) *mtlstest.Receiver {
	t.Helper()
	authority, err := dev.EnsureAuthority(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	own, err := authority.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	want.Certificates = []tls.Certificate{own}
	return mtlstest.Receive(t, want, nil)
}

// operator is the admin API as the command line uses it.
func (p *process) operator() *adminclient.Client {
	p.Helper()
	token, err := (&config.Client{DataDir: p.cfg.DataDir}).Token()
	if err != nil {
		p.Fatal(err)
	}
	return adminclient.New("http://"+p.app.AdminAddr().String(), token)
}

func (p *process) certify(pair mtlstest.Pair) {
	p.Helper()
	if _, err := p.operator().SetClientCertificate(p.Context(), townHall, pair.Chain, pair.Key); err != nil {
		p.Fatal(err)
	}
}

// certificate is the id of the certificate that is shown.
func (p *process) certificate() uuid.UUID {
	p.Helper()
	known, err := clientcertificate.Aggregate.Load(p.Context(), p.app.Commands.Store, townHall)
	if err != nil {
		p.Fatal(err)
	}
	return known.State.Certificate.ID
}

func (p *process) arrived(r *mtlstest.Receiver, name string, n int) {
	p.Helper()
	p.eventually(name+" is shown", func() bool {
		shown := r.Shown()
		return len(shown) >= n && !slices.ContainsFunc(shown[len(shown)-n:], func(s string) bool { return s != name })
	})
}

// keyParts are pieces of a private key, of its bytes and of how they are written.
func keyParts(t *testing.T, pair mtlstest.Pair) [][]byte {
	t.Helper()
	block, _ := pem.Decode([]byte(pair.Key))
	if block == nil {
		t.Fatal("no key")
	}
	secret := block.Bytes[36:68] // the secret number of a key on P-256, in PKCS #8
	parts := [][]byte{secret, []byte(fmt.Sprintf("%x", secret)), []byte(base64.StdEncoding.EncodeToString(secret))}
	for line := range strings.Lines(pair.Key) {
		if !strings.HasPrefix(line, "-----") {
			parts = append(parts, []byte(strings.TrimSpace(line)))
		}
	}
	return parts
}

// TestHostilePrivateKeysLieNowhereOpen: a private key is in no file of the event store, the key store and Postgres, its
// log included, and in nothing that is logged; and after its certificate was replaced, not even the master key opens it.
func TestHostilePrivateKeysLieNowhereOpen(t *testing.T) {
	database := pgtest.NewServer(t)
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, func(cfg *config.Config) { cfg.DatabaseURL = config.Address(database.URL()) })
	log := &logged{}
	p.close()
	p.alsoLog = log
	p.open()
	authority, stranger := mtlstest.NewAuthority(t, "Receiver's"), mtlstest.NewAuthority(t, "Stranger's")
	first, second, foreign := authority.Issue("first", nil), authority.Issue("second", nil), stranger.Issue("foreign", nil)
	r := wanting(t, p.cfg.DataDir, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()})
	id := p.connect("crm", r.URL+"/hook", 0)

	// Without one, and with one of a stranger's, the attempt says so.
	told := func(want string) {
		t.Helper()
		tested := fmt.Sprint(p.call(http.MethodPost, destinations+"crm/test", nil, http.StatusOK))
		if !strings.Contains(tested, want) {
			t.Errorf("the test says %s", tested)
		}
		event := p.publish()
		attempts := fmt.Sprint(p.settled(deliveryOf(event, id), "failed"))
		if !strings.Contains(attempts, want) {
			t.Errorf("the attempts say %s", attempts)
		}
	}
	told("client certificate")
	p.certify(foreign)
	told("your organization's")
	if len(r.Shown()) > 0 {
		t.Errorf("it let in %v", r.Shown())
	}
	if _, err := p.operator().SetClientCertificate(t.Context(), townHall, first.Chain, second.Key); err == nil {
		t.Error("another's key is taken")
	}
	p.certify(first)
	p.publish()
	p.arrived(r, "first", 1)
	validated := p.call(http.MethodPost, destinations+"validate", map[string]any{"config": map[string]any{"url": r.URL + "/hook"}}, http.StatusOK)
	if validated["reachable"] != true {
		t.Errorf("validation says %v", validated)
	}
	p.call(http.MethodPost, destinations+"crm/test", nil, http.StatusOK)
	p.arrived(r, "first", 3)

	var cluster string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&cluster); err != nil {
		t.Fatal(err)
	}
	look := func(when string) thief {
		if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		files := p.steal(p.cfg.DataDir, cluster)
		store, postgres := false, false // the subject lies open: where it is found, so would the others be
		for _, path := range files.has([]byte("CN=first")) {
			store, postgres = store || strings.Contains(path, "/eventstore/"), postgres || strings.HasPrefix(path, cluster)
		}
		if !store || !postgres {
			t.Errorf("%s: the subject is found in %v; the test shows nothing", when, files.has([]byte("CN=first")))
		}
		for _, pair := range []mtlstest.Pair{first, second, foreign} {
			for _, part := range keyParts(t, pair) {
				if where := files.has(part); len(where) > 0 || strings.Contains(log.String(), string(part)) {
					t.Errorf("%s: a private key is in %v, or in the log", when, where)
				}
			}
		}
		return files
	}
	old := p.certificate()
	if files := look("while it is shown"); len(files.opened(old)) == 0 {
		t.Error("the data key is found nowhere: the test shows nothing")
	}
	p.certify(second)
	p.publish()
	p.arrived(r, "second", 1)
	if status, body := p.admin(http.MethodPost, "/admin/keys/renew"); status != http.StatusOK {
		t.Fatalf("renew: %d %s", status, body)
	}
	files := look("after it was replaced")
	if where := files.opened(old); len(where) > 0 {
		t.Errorf("its data key opens: %v", where)
	}
	if len(files.opened(p.certificate())) == 0 {
		t.Error("that of the next is not found either: the test shows nothing")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestHostileLossOfACertificatesKey: a server whose key of a client certificate is lost does not start unless that is
// accepted. Then deliveries that need it fail with words, others go on, and setting the certificate again mends it.
func TestHostileLossOfACertificatesKey(t *testing.T) {
	p := start(t, nil)
	authority := mtlstest.NewAuthority(t, "Receiver's")
	pair := authority.Issue("ours", nil)
	r := wanting(t, p.cfg.DataDir, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert})
	id := p.connect("crm", r.URL+"/hook", 0)
	p.certify(pair)
	p.publish()
	p.arrived(r, "ours", 1)
	lost := p.certificate()
	p.sql("DELETE FROM carillon.data_keys WHERE id = $1", lost)
	p.close()
	slots := custody.NewSlots(p.keyStore(), time.Now)
	if err := slots.Erase(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	slots.Close()
	if err := p.refusedStart(); !strings.Contains(err.Error(), "by 1 client certificate, of organization "+townHall.String()) {
		t.Errorf("the start is refused with %v", err)
	}
	p.cfg.AcceptLostKeys = true
	p.open()
	if status, ready := p.admin(http.MethodGet, "/readyz"); status != http.StatusOK || !strings.Contains(ready, "1 client certificate, of organization") {
		t.Errorf("readiness: %d %s", status, ready)
	}
	const want = "the private key of your organization's client certificate can't be read any more"
	sent := len(r.Shown())
	if attempts := fmt.Sprint(p.settled(deliveryOf(p.publish(), id), "failed")); !strings.Contains(attempts, want) {
		t.Errorf("the attempts say %s", attempts)
	}
	if tested := fmt.Sprint(p.call(http.MethodPost, destinations+"crm/test", nil, http.StatusOK)); !strings.Contains(tested, want) {
		t.Errorf("the test says %s", tested)
	}
	if len(r.Shown()) != sent {
		t.Error("something was sent without the certificate")
	}
	p.certify(pair)
	event := p.publish()
	p.settled(deliveryOf(event, id), "succeeded")
	p.arrived(r, "ours", 1)
	if status, ready := p.admin(http.MethodGet, "/readyz"); status != http.StatusOK {
		t.Errorf("readiness: %d %s", status, ready)
	}
}

// TestHostileCertificatesOverTwoProcesses: what is set, replaced or removed by one server is what the other shows too.
func TestHostileCertificatesOverTwoProcesses(t *testing.T) {
	s := newSeveral(t, 2, false)
	authority := mtlstest.NewAuthority(t, "Receiver's")
	r := wanting(t, s.data, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert})
	status := s.ask(http.MethodPut, s.apis[0]+"/events/destinations/crm", map[string]any{"name": "CRM", "config": map[string]any{"url": r.URL + "/hook"}}, nil)
	if status != http.StatusCreated {
		t.Fatalf("create: %d", status)
	}
	path := "/admin/organizations/" + townHall.String() + "/client-certificate"
	both := func(name string) {
		t.Helper()
		for _, api := range s.apis {
			s.eventually("each server shows "+name, func() bool {
				before := len(r.Shown())
				status := s.ask(http.MethodPost, api+"/events/destinations/crm/test", nil, nil)
				shown := r.Shown()
				return status == http.StatusOK && len(shown) > before && shown[len(shown)-1] == name
			})
		}
	}
	both("")
	for i, name := range []string{"first", "second", "third"} {
		pair := authority.Issue(name, nil)
		status := s.ask(http.MethodPut, s.admins[i%2]+path, map[string]string{"certificate": pair.Chain, "privateKey": pair.Key}, nil)
		if want := []int{http.StatusCreated, http.StatusOK, http.StatusOK}[i]; status != want {
			t.Errorf("set %s: %d, want %d", name, status, want)
		}
		both(name)
	}
	s.servers[1].kill()
	if status := s.ask(http.MethodDelete, s.admins[0]+path, nil, nil); status != http.StatusOK {
		t.Errorf("remove: %d", status)
	}
	s.servers[1].start()
	s.eventually("the other server did not come up", func() bool { return s.ready(1) })
	both("")
	var keys int
	s.eventually("the keys of certificates that ended are gone", func() bool {
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM carillon.data_keys k JOIN client_certificates.certificates c USING (id)`).Scan(&keys)
		return err == nil && keys == 0
	})
}
