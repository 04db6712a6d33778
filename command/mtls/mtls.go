// Package mtls reads client certificates, with which requests identify themselves to receivers: a chain and its private
// key, as PEM. Unusable ones are refused with the remedy. No error contains any part of a private key.
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
	"time"

	"carillon/command/plaintext"
)

// Maximum sizes in bytes: several times those of usual chains and keys.
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

// Error is a fault of one of the fields, with the remedy.
type Error struct{ Field, Message string }

// Error begins with the field.
func (e *Error) Error() string { return e.Message }

func wrong(field, format string, args ...any) *Error {
	return &Error{Field: field, Message: field + " " + fmt.Sprintf(format, args...)}
}

// Certificate is a usable client certificate, with its properties.
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
		return Certificate{}, wrong(FieldPrivateKey, "is not the key of this certificate: send the one with which the "+
			"certificate was asked for")
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return Certificate{}, unreadableKey()
	}
	sum := sha256.Sum256(leaf.Raw)
	read := Certificate{
		Subject:     plaintext.Of(leaf.Subject.String()),
		Issuer:      plaintext.Of(leaf.Issuer.String()),
		Serial:      leaf.SerialNumber.Text(16),
		Fingerprint: hex.EncodeToString(sum[:]),
		NotBefore:   leaf.NotBefore.UTC(),
		NotAfter:    leaf.NotAfter.UTC(),
		Key:         encoded,
	}
	for _, certificate := range certificates {
		read.Chain += string(pem.EncodeToMemory(&pem.Block{Type: blockCertificate, Bytes: certificate.Raw}))
	}
	return read, nil
}

var errUnusable = errors.New("client certificate and private key can't be used together")

// Open converts a chain and a private key, as returned by Read, to a certificate for connections.
func Open(chain string, key []byte) (*tls.Certificate, error) {
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return nil, errUnusable // without the cause, which may contain parts of the key
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
