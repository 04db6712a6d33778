// Package sealing encrypts what must not be readable in the event log: secrets, custom headers, response bodies.
//
// It is envelope encryption. A value is sealed with AES-256-GCM under the data key of its owner, a destination; the
// data key is wrapped in the same way under the master key and kept by a KeyStore, outside the event log. Shredding an
// owner deletes its data key, and all that was sealed for it becomes unreadable, in the log and in the log's backups.
//
//	sealed value   version (1 byte) ‖ nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes); the owner's id is authenticated,
//	               and since version 3 the name of the field
//	data key       32 bytes that encrypt ‖ 32 bytes that key the digests; wrapped as a sealed value that names the
//	               wrapping key (see Ring)
package sealing

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/google/uuid"
)

const keySize = 32 // bytes: AES-256

// First bytes of sealed values. Version 2 is taken, see wrapVersion.
const (
	ownerVersion = 1 // opens for its owner, in any field
	fieldVersion = 3 // opens for its owner in its field
)

// Field names the place of a sealed value among the values of its owner. Its text is authenticated and never changes.
type Field string

// Fields of destinations, and of client certificates.
const (
	Secret          Field = "secret"
	Address         Field = "address"
	Headers         Field = "headers"
	ResponseBody    Field = "response body"
	ResponseHeaders Field = "response headers"
	PrivateKey      Field = "private key"
)

// ErrDamaged: the value is not what Seal made for this owner and field under this key. It is damaged, it was sealed for
// another owner or field, or the master key was changed.
var ErrDamaged = errors.New("sealed value is damaged, or belongs to another owner, field or key")

func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("key has %d bytes, want %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// seal binds the value to its owner and field: it does not open for another one.
func seal(aead cipher.AEAD, owner uuid.UUID, field Field, plain []byte) []byte {
	return sealFor(aead, fieldVersion, append(owner[:], field...), plain)
}

// open opens what seal made, and values of version 1, which are bound to no field.
func open(aead cipher.AEAD, owner uuid.UUID, field Field, sealed []byte) ([]byte, error) {
	if len(sealed) > 0 && sealed[0] == ownerVersion {
		return openFor(aead, ownerVersion, owner[:], sealed)
	}
	return openFor(aead, fieldVersion, append(owner[:], field...), sealed)
}

func sealFor(aead cipher.AEAD, version byte, bound, plain []byte) []byte {
	sealed := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(plain)+aead.Overhead())
	sealed[0] = version
	_, _ = rand.Read(sealed[1:]) // never fails, by its contract
	return aead.Seal(sealed, sealed[1:], plain, bound)
}

func openFor(aead cipher.AEAD, version byte, bound, sealed []byte) ([]byte, error) {
	n := 1 + aead.NonceSize()
	if len(sealed) < n || sealed[0] != version {
		return nil, ErrDamaged
	}
	plain, err := aead.Open(nil, sealed[1:n], sealed[n:], bound)
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}
