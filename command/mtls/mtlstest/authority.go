// Package mtlstest makes authorities, certificates and receivers that ask for them, for tests.
package mtlstest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"carillon/eventstore/storetest/must"
)

// Authority signs certificates.
type Authority struct {
	tb  testing.TB
	Own *x509.Certificate
	key crypto.Signer
}

// Pair is a chain and its private key, as PEM.
type Pair struct {
	Chain, Key string
	Leaf       *x509.Certificate
}

// NewAuthority makes one that signs itself.
func NewAuthority(tb testing.TB, name string) *Authority {
	tb.Helper()
	return signed(tb, nil, name)
}

// Below makes an authority that this one has signed.
func (a *Authority) Below(name string) *Authority {
	a.tb.Helper()
	return signed(a.tb, a, name)
}

func signed(tb testing.TB, by *Authority, name string) *Authority {
	tb.Helper()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	made := &Authority{tb: tb, key: Key(tb)}
	if by == nil {
		by = &Authority{tb: tb, Own: template, key: made.key}
	}
	made.Own = by.sign(template, made.key.Public())
	return made
}

// Key makes a private key.
func Key(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(tb)
	return key
}

// sign fills in omitted fields of a certificate, and signs it.
func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) *x509.Certificate {
	a.tb.Helper()
	serial := must.Get(rand.Int(rand.Reader, big.NewInt(1<<62)))(a.tb)
	template.SerialNumber = serial
	if template.NotBefore.IsZero() {
		template.NotBefore = time.Now().Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(90 * 24 * time.Hour)
	}
	raw := must.Get(x509.CreateCertificate(rand.Reader, template, a.Own, public, a.key))(a.tb)
	made := must.Get(x509.ParseCertificate(raw))(a.tb)
	return made
}

// Issue makes a client certificate by this name. change is optional and modifies the template.
func (a *Authority) Issue(name string, change func(*x509.Certificate)) Pair {
	a.tb.Helper()
	return a.IssueFor(Key(a.tb), name, change)
}

// IssueFor is Issue for a key.
func (a *Authority) IssueFor(key crypto.Signer, name string, change func(*x509.Certificate)) Pair {
	a.tb.Helper()
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	leaf := a.sign(template, key.Public())
	encoded := must.Get(x509.MarshalPKCS8PrivateKey(key))(a.tb)
	return Pair{
		Chain: PEM("CERTIFICATE", leaf.Raw) + PEM("CERTIFICATE", a.Own.Raw), Key: PEM("PRIVATE KEY", encoded), Leaf: leaf,
	}
}

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Own)
	return pool
}

// PEM encodes a block.
func PEM(kind string, raw []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
}
