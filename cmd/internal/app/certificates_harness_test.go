package app_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/dev"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/must"
)

// wanting starts a receiver that is trusted through the development authority and asks for certificates as want says.
func wanting(t testing.TB, dataDir string, want *tls.Config) *mtlstest.Receiver {
	t.Helper()
	authority := must.Get(dev.EnsureAuthority(dataDir))(t)
	own := must.Get(authority.Certificate())(t)
	want.Certificates = []tls.Certificate{own}
	return mtlstest.Receive(t, want, nil)
}

// operator is the admin API as the command line uses it.
func (p *process) operator() *adminclient.Client {
	p.Helper()
	return adminclient.New("http://"+p.app.AdminAddr().String(), p.adminToken())
}

// certify sets the certificate. From then on it is shown.
func (p *process) certify(pair mtlstest.Pair) {
	p.Helper()
	must.Get(p.operator().SetClientCertificate(p.Context(), p.organization, pair.Chain, pair.Key))(p)
}

// certificate is the id of the certificate that is shown.
func (p *process) certificate() uuid.UUID {
	p.Helper()
	known := must.Get(clientcertificate.Aggregate.Load(p.Context(), p.app.Commands.Store, p.organization))(p)
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
func keyParts(t testing.TB, pair mtlstest.Pair) [][]byte {
	t.Helper()
	block, _ := pem.Decode([]byte(pair.Key))
	if block == nil {
		t.Fatal("no key")
		return nil
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
