package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	redacted     = secretPrefix + "…"

	// mintedBytes is the key length of new secrets; Standard Webhooks allows minSecretBytes to maxSecretBytes.
	mintedBytes    = 32
	minSecretBytes = 24
	maxSecretBytes = 64
)

// ErrSecret refuses a text that is no secret. It never repeats the text.
var ErrSecret = errors.New("not a webhook secret: want whsec_ and base64 of 24 to 64 bytes")

// Secret is a signing key. However it is printed, logged or marshalled, its value stays hidden; only [Secret.Reveal]
// shows it. The zero value is no secret.
type Secret struct {
	// A function, because fmt prints what is in unexported struct fields without asking its methods, and follows
	// pointers there on a verb it does not know. Of a function it can show no more than an address.
	key func() []byte
}

// Mint makes a new secret of 32 bytes from a source of randomness, which is crypto/rand.Reader in production.
func Mint(random io.Reader) (Secret, error) {
	key := make([]byte, mintedBytes)
	if _, err := io.ReadFull(random, key); err != nil {
		return Secret{}, fmt.Errorf("minting secret: %w", err)
	}
	return newSecret(key), nil
}

// ParseSecret reads what [Secret.Reveal] returns.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return Secret{}, ErrSecret
	}
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return Secret{}, ErrSecret
	}
	return newSecret(key), nil
}

func newSecret(key []byte) Secret { return Secret{key: func() []byte { return key }} }

// Reveal is the full value, whsec_ and base64, for its owner and for storage under encryption. It is empty for the zero
// value.
func (s Secret) Reveal() string {
	if s.key == nil {
		return ""
	}
	return secretPrefix + base64.StdEncoding.EncodeToString(s.key())
}

// Masked is whsec_… and the last four characters, to distinguish secrets.
func (s Secret) Masked() string {
	full := s.Reveal()
	if full == "" {
		return ""
	}
	return redacted + full[len(full)-4:]
}

func (s Secret) bytes() []byte {
	if s.key == nil {
		return nil
	}
	return s.key()
}

// String hides the value.
func (s Secret) String() string { return redacted }

// GoString hides the value.
func (s Secret) GoString() string { return redacted }

// Format hides the value from every verb of fmt.
func (s Secret) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, redacted) }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText hides the value from encoders; code that stores secrets calls Reveal.
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

const signatureVersion = "v1,"

// Sign is the webhook-signature header of Standard Webhooks 1.0.0: for each secret v1, and the base64 of HMAC-SHA256
// over {id}.{unix seconds}.{body}, joined with single spaces in the order of the secrets. The id must not contain a
// dot.
func Sign(secrets []Secret, id string, timestamp time.Time, body []byte) string {
	prefix := make([]byte, 0, len(id)+22)
	prefix = append(prefix, id...)
	prefix = append(prefix, '.')
	prefix = strconv.AppendInt(prefix, timestamp.Unix(), 10)
	prefix = append(prefix, '.')

	encoded := base64.StdEncoding.EncodedLen(sha256.Size)
	header := make([]byte, 0, len(secrets)*(len(signatureVersion)+encoded+1))
	var sum [sha256.Size]byte
	for i, secret := range secrets {
		if i > 0 {
			header = append(header, ' ')
		}
		mac := hmac.New(sha256.New, secret.bytes())
		_, _ = mac.Write(prefix) // a hash never fails
		_, _ = mac.Write(body)
		header = append(header, signatureVersion...)
		header = base64.StdEncoding.AppendEncode(header, mac.Sum(sum[:0]))
	}
	return string(header)
}
