package mtls

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

const example = "openssl pkey -in key.pem -out plain.pem"

func unreadableKey() error {
	return wrong(FieldPrivateKey, "can't be read: it must be one RSA, ECDSA or Ed25519 key as PEM (PKCS #8, "+
		"or as OpenSSL writes it)")
}

// readKey reads a private key. No error contains any part of it.
func readKey(text string) (crypto.Signer, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, wrong(FieldPrivateKey, "is required: the private key of the certificate as PEM")
	case len(text) > MaxKey:
		return nil, wrong(FieldPrivateKey, "has %d bytes, and may have %d: send one key and nothing else", len(text), MaxKey)
	}
	data, err := PEM([]byte(text))
	if err != nil {
		return nil, wrong(FieldPrivateKey, "%v", err)
	}
	var key *pem.Block
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "EC PARAMETERS": // OpenSSL writes them before a key
		case block.Type == "ENCRYPTED PRIVATE KEY", strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			return nil, wrong(FieldPrivateKey, "is encrypted: send it without its passphrase (%s); it is sealed here", example)
		case !strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, wrong(FieldPrivateKey, "holds something else than a key: send the key alone, and certificates as "+
				"certificate")
		case key != nil:
			return nil, wrong(FieldPrivateKey, "holds more than one key: send that of the client certificate alone")
		default:
			key = block
		}
	}
	if key == nil {
		return nil, wrong(FieldPrivateKey, "is not PEM, or is cut off: it must have lines from -----BEGIN PRIVATE KEY----- "+
			"to -----END PRIVATE KEY-----")
	}
	parsed, ok := parseKey(key)
	if !ok {
		return nil, unreadableKey()
	}
	return parsed, nil
}

func parseKey(block *pem.Block) (crypto.Signer, bool) {
	var parsed any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		parsed, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, false
	}
	switch key := parsed.(type) {
	case *rsa.PrivateKey:
		return key, true
	case *ecdsa.PrivateKey:
		return key, true
	case ed25519.PrivateKey:
		return key, true
	}
	return nil, false
}

// errDER refuses a binary certificate or key.
var errDER = errors.New("is binary (DER), and has to be PEM: convert it by \"openssl x509 -inform der -in FILE -out " +
	"cert.pem\", or a key by \"openssl pkey -inform der -in FILE -out key.pem\"")

// byteOrderMark begins texts of some editors.
var byteOrderMark = []byte("\uFEFF")

// PEM returns a file's text without a byte order mark, which pem.Decode takes for a part of the first line. It refuses
// a file that is binary.
func PEM(file []byte) ([]byte, error) {
	const sequence = 0x30 // the tag that certificates and keys in DER begin with
	text := bytes.TrimPrefix(file, byteOrderMark)
	if len(text) > 1 && text[0] == sequence && text[1] > 0x7f { // a length of more than 127 bytes, which is no text
		return nil, errDER
	}
	return text, nil
}

// ReadPEM reads a file as PEM does.
func ReadPEM(path string) ([]byte, error) {
	file, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		return nil, fmt.Errorf("can't be read: %w", err)
	}
	return PEM(file)
}
