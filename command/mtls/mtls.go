// Package mtls reads the certificates with which requests to receivers say whose they are: a chain and its private key,
// as PEM. What could not work at any receiver is refused with what to do about it. No error tells anything of a private
// key.
package mtls

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// What may be sent, in bytes: several times what chains and keys need.
const (
	MaxChain = 32 << 10
	MaxKey   = 16 << 10
)

const maxChainLength = 8 // certificates

// Fields of the input, as errors name them.
const (
	FieldCertificate = "certificate"
	FieldPrivateKey  = "privateKey"
)

// Error says what is wrong with one of the fields, and what to do.
type Error struct{ Field, Message string }

// Error begins with the field.
func (e *Error) Error() string { return e.Message }

func wrong(field, format string, args ...any) *Error {
	return &Error{Field: field, Message: field + " " + fmt.Sprintf(format, args...)}
}

// Certificate is a client certificate that can be shown, with what is known of it.
type Certificate struct {
	Chain       string // PEM: the certificate, and after it those that signed it; nothing else
	Subject     string // RFC 2253, as Issuer
	Issuer      string
	Serial      string // hexadecimal
	Fingerprint string // SHA-256, hexadecimal
	NotBefore   time.Time
	NotAfter    time.Time
	Key         []byte // PKCS #8: not to be stored, logged or shown
}

// Read checks a chain and its private key at a time. It fails with an *Error.
func Read(chain, key string, now time.Time) (Certificate, error) {
	certificates, err := readChain(chain, now)
	if err != nil {
		return Certificate{}, err
	}
	private, err := readKey(key)
	if err != nil {
		return Certificate{}, err
	}
	leaf := certificates[0]
	public, known := leaf.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	if !known || !public.Equal(private.Public()) {
		return Certificate{}, wrong(FieldPrivateKey, "is not the key of this certificate: send the one with which the certificate was asked for")
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Certificate{}, unreadableKey()
	}
	sum := sha256.Sum256(leaf.Raw)
	read := Certificate{
		Subject: text(leaf.Subject.String()), Issuer: text(leaf.Issuer.String()), Serial: leaf.SerialNumber.Text(16), Fingerprint: hex.EncodeToString(sum[:]),
		NotBefore: leaf.NotBefore.UTC(), NotAfter: leaf.NotAfter.UTC(), Key: encoded,
	}
	for _, certificate := range certificates {
		read.Chain += string(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: certificate.Raw}))
	}
	return read, nil
}

// text is a name as it can be stored and shown: what its maker has put into it may be anything.
func text(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, strings.ToValidUTF8(name, string(unicode.ReplacementChar)))
}

var errUnusable = errors.New("client certificate and private key can't be used together")

// Open makes of a chain and a private key, as Read gave them, what a connection shows.
func Open(chain string, key []byte) (*tls.Certificate, error) {
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, errUnusable // and not why: nothing of the key is told
	}
	shown := &tls.Certificate{PrivateKey: private}
	for block, rest := pem.Decode([]byte(chain)); block != nil; block, rest = pem.Decode(rest) {
		shown.Certificate = append(shown.Certificate, block.Bytes)
	}
	if len(shown.Certificate) == 0 {
		return nil, errUnusable
	}
	if shown.Leaf, err = x509.ParseCertificate(shown.Certificate[0]); err != nil {
		return nil, errUnusable
	}
	return shown, nil
}
