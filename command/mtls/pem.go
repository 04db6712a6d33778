package mtls

import (
	"bytes"
	"errors"
	"fmt"
	"os"
)

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
