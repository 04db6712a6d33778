package mtls_test

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"carillon/command/mtls"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const (
	certificate = mtls.FieldCertificate
	privateKey  = mtls.FieldPrivateKey
)

func TestReadCertificateCanBeShown(t *testing.T) {
	t.Parallel()
	root := mtlstest.NewAuthority(t, "Root")
	issuing := root.Below("Issuing")
	bits := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	curve := mtlstest.Key(t)
	asOpenSSL := must.Get(x509.MarshalECPrivateKey(curve))(t)
	for name, tt := range map[string]struct {
		key  crypto.Signer
		form string // "": PKCS #8
	}{
		"RSA":                   {key: bits},
		"RSA as OpenSSL writes": {bits, mtlstest.PEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(bits))},
		"ECDSA":                 {key: curve},
		"ECDSA with parameters": {curve,
			mtlstest.PEM("EC PARAMETERS", []byte{6, 1, 0}) + mtlstest.PEM("EC PRIVATE KEY", asOpenSSL)},
		"Ed25519": {key: edwards},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := issuing.IssueFor(tt.key, "carillon", nil)
			if tt.form != "" {
				pair.Key = tt.form
			}
			chain := "Bag Attributes: of no interest\n" + strings.ReplaceAll(pair.Chain, "\n", "\r\n") +
				mtlstest.PEM("CERTIFICATE", root.Own.Raw)
			read := must.Get(mtls.Read(chain, "\n"+pair.Key, time.Now()))(t)
			sum := sha256.Sum256(pair.Leaf.Raw)
			assert.True(t, read.Subject == "CN=carillon" && read.Issuer == "CN=Issuing" &&
				read.Serial == pair.Leaf.SerialNumber.Text(16) && read.Fingerprint == hex.EncodeToString(sum[:]) &&
				read.NotAfter.Equal(pair.Leaf.NotAfter) && read.NotBefore.Equal(pair.Leaf.NotBefore), "read %+v", read)
			if want := pair.Chain + mtlstest.PEM("CERTIFICATE", root.Own.Raw); read.Chain != want {
				t.Errorf("the chain is kept as %s", read.Chain)
			}
			shown, err := mtls.Open(read.Chain, read.Key)
			assert.True(t, err == nil && len(shown.Certificate) == 3 && shown.Leaf.Equal(pair.Leaf),
				"opened to %d certificates, %v", len(shown.Certificate), err)
		})
	}
}

// Each refusal names the field and says what to do.
func TestHostileCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	root := mtlstest.NewAuthority(t, "Root")
	issuing := root.Below("Issuing")
	good := issuing.Issue("carillon", nil)
	with := func(change func(*x509.Certificate)) mtlstest.Pair { return issuing.Issue("carillon", change) }
	short, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // it is to be refused
	must.OK(t, err)
	small := must.Get(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))(t)
	old, early := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	rootPEM := mtlstest.PEM("CERTIFICATE", root.Own.Raw)
	leaf, _, _ := strings.Cut(good.Chain, "-----BEGIN CERTIFICATE-----\n"+
		strings.SplitN(good.Chain, "-----BEGIN CERTIFICATE-----\n", 3)[2])
	for name, tt := range map[string]struct{ chain, message string }{
		"none":             {" \n", "is required"},
		"no PEM":           {"MIIB", "is not PEM, or is cut off"},
		"cut off":          {good.Chain[:len(good.Chain)/4], "is not PEM, or is cut off"},
		"the rest cut off": {leaf + rootPEM[:len(rootPEM)/2], "is not PEM, or is cut off"},
		"DER":              {string(root.Own.Raw), "is binary (DER)"},
		"a key":            {good.Chain + good.Key, "holds a private key: send that as privateKey"},
		"a request":        {mtlstest.PEM("CERTIFICATE REQUEST", []byte("x")), "no certificate"},
		"nonsense":         {mtlstest.PEM("CERTIFICATE", []byte("nonsense")), "number 1, an unreadable"},
		"too large":        {strings.Repeat("x", mtls.MaxChain+1), "may have 32768"},
		"too many":         {strings.Repeat(leaf, 9), "more than 8"},
		"expired":          {with(func(c *x509.Certificate) { c.NotAfter = old }).Chain, "has expired"},
		"not valid yet":    {with(func(c *x509.Certificate) { c.NotBefore = early }).Chain, "not valid yet"},
		"an authority":     {mtlstest.PEM("CERTIFICATE", issuing.Own.Raw) + rootPEM, "one of an authority"},
		"of a server": {with(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}).Chain, "not for clients"},
		"without signatures": {with(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }).Chain,
			"digitalSignature"},
		"short RSA":     {issuing.IssueFor(short, "carillon", nil).Chain, "1024 bits: it must have 2048 to 8192"},
		"a small curve": {issuing.IssueFor(small, "carillon", nil).Chain, "P-256"},
		"out of order":  {leaf + rootPEM, "number 2 of the chain did not sign number 1"},
		"twice":         {leaf + leaf, "number 2 of the chain did not sign number 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mtls.Read(tt.chain, good.Key, time.Now())
			refused(t, err, certificate, tt.message)
		})
	}
}

// refused expects an error of a field that says this, and nothing of a key.
func refused(t *testing.T, err error, field, message string) {
	t.Helper()
	said, ok := errors.AsType[*mtls.Error](err)
	assert.True(t, ok && said.Field == field && strings.HasPrefix(said.Message, field+" ") &&
		strings.Contains(said.Message, message), "refused with %v, want %s … %s", err, field, message)
}

func TestHostileKeysAreRefused(t *testing.T) {
	t.Parallel()
	issuing := mtlstest.NewAuthority(t, "Root").Below("Issuing")
	good, other := issuing.Issue("carillon", nil), issuing.Issue("carillon", nil)
	exchange := must.Get(ecdh.X25519().GenerateKey(rand.Reader))(t)
	noSigner := must.Get(x509.MarshalPKCS8PrivateKey(exchange))(t)
	oldStyle := strings.Replace(good.Key, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n", 1)
	for name, tt := range map[string]struct{ key, message string }{
		"none":    {"", "is required"},
		"no PEM":  {good.Key[30:], "is not PEM, or is cut off"},
		"cut off": {good.Key[:90], "is not PEM, or is cut off"},
		"another": {other.Key, "is not the key of this certificate"},
		"encrypted": {mtlstest.PEM("ENCRYPTED PRIVATE KEY", []byte("secret")),
			"is encrypted: send it without its passphrase"},
		"encrypted as it once was": {oldStyle, "is encrypted"},
		"two":                      {good.Key + other.Key, "more than one key"},
		"a certificate":            {good.Key + good.Chain, "something else than a key"},
		"nonsense":                 {mtlstest.PEM("PRIVATE KEY", []byte("nonsense")), "can't be read"},
		"another form than named":  {strings.ReplaceAll(good.Key, "PRIVATE KEY", "RSA PRIVATE KEY"), "can't be read"},
		"of no signatures":         {mtlstest.PEM("PRIVATE KEY", noSigner), "can't be read"},
		"too large":                {strings.Repeat("x", mtls.MaxKey+1), "may have 16384"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := mtls.Read(good.Chain, tt.key, time.Now())
			refused(t, err, privateKey, tt.message)
			for line := range strings.Lines(tt.key) {
				if line = strings.TrimSpace(line); len(line) > 20 && !strings.HasPrefix(line, "-----") &&
					strings.Contains(err.Error(), line[:20]) {
					t.Errorf("the error contains the key: %v", err)
				}
			}
		})
	}
}

// Any name can be stored and shown.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	root := mtlstest.NewAuthority(t, "Root")
	pair := root.Issue("", func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "a\x00b\x1b[31m\nc"} })
	read := must.Get(mtls.Read(pair.Chain, pair.Key, time.Now()))(t)
	assert.Equal(t, read.Subject, "CN=a\uFFFDb\uFFFD[31m\uFFFDc", "subject")
}

func TestDamagedOnesOpenToNothing(t *testing.T) {
	t.Parallel()
	pair := mtlstest.NewAuthority(t, "Root").Issue("carillon", nil)
	read := must.Get(mtls.Read(pair.Chain, pair.Key, time.Now()))(t)
	for name, tt := range map[string]struct {
		chain string
		key   []byte
	}{
		"no key": {read.Chain, nil}, "half a key": {read.Chain, read.Key[:20]}, "no chain": {"", read.Key},
		"a chain of nonsense": {mtlstest.PEM("CERTIFICATE", []byte("x")), read.Key},
	} {
		shown, err := mtls.Open(tt.chain, tt.key)
		assert.True(t, err != nil && shown == nil, "%s: opened", name)
	}
}
