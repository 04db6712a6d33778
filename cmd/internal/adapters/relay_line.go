package adapters

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"
)

// line connects a destination with its listeners. Both ends know the secret part of the URL, of which the tables have
// only a hash together with the organization, so no other organization's listener has the same.
type line struct {
	channel []byte
	key     cipher.AEAD
}

func lineOf(organization uuid.UUID, token string) line {
	channel := sha256.Sum256([]byte("channel " + organization.String() + " " + token))
	key := sha256.Sum256([]byte("key " + organization.String() + " " + token))
	block, _ := aes.NewCipher(key[:])  // 32 bytes are right
	sealing, _ := cipher.NewGCM(block) // as are blocks of AES
	return line{channel: channel[:], key: sealing}
}

// name returns the channel as notifications name it.
func (l line) name() string { return hex.EncodeToString(l.channel) }

func (l line) seal(plain []byte) []byte {
	nonce := make([]byte, l.key.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return l.key.Seal(nonce, nonce, plain, l.channel)
}

func (l line) open(sealed []byte) ([]byte, error) {
	n := l.key.NonceSize()
	if len(sealed) < n {
		return nil, errors.New("a message of a listener is damaged")
	}
	plain, err := l.key.Open(nil, sealed[:n], sealed[n:], l.channel)
	if err != nil {
		return nil, errors.New("a message of a listener is damaged")
	}
	return plain, nil
}
