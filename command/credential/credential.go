// Package credential makes and reads the bearer tokens that are handed out: API keys of organizations, tokens of
// operators and of auditors. A token is a prefix, 8 characters of id, "_" and 43 characters of secret; only a digest of
// the secret is ever stored.
package credential

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// Kind is the purpose of a token, and its prefix.
type Kind string

// The prefix shows a leaked token's kind to its finder, and to scanners for secrets.
const (
	APIKey        Kind = "ck_"
	OperatorToken Kind = "co_"
	AuditorToken  Kind = "ca_"
)

const (
	idLength     = 8
	secretLength = 43 // base62 characters: 256 bits
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Credential is a token in its parts. However it is printed, its secret stays hidden; only Reveal shows it.
type Credential struct {
	ID     string // the public part
	kind   Kind
	secret string
}

// New makes a credential of fresh randomness.
func New(kind Kind) Credential {
	return Credential{ID: random(idLength), kind: kind, secret: random(secretLength)}
}

// Parse reads what Reveal wrote; false means that it is no token of the kind by its form.
func Parse(kind Kind, token string) (Credential, bool) {
	rest, ok := strings.CutPrefix(token, string(kind))
	if !ok || len(rest) != idLength+1+secretLength || rest[idLength] != '_' {
		return Credential{}, false
	}
	c := Credential{ID: rest[:idLength], kind: kind, secret: rest[idLength+1:]}
	return c, alphanumeric(c.ID) && alphanumeric(c.secret)
}

// Reveal is the whole token, secret included: shown once, to whom it is issued.
func (c Credential) Reveal() string { return string(c.kind) + c.ID + "_" + c.secret }

// Hash is the stored digest of the secret. A plain digest is enough, because the secret is 256 random bits. Compare in
// constant time.
func (c Credential) Hash() []byte {
	sum := sha256.Sum256([]byte(c.secret))
	return sum[:]
}

// String names the credential without its secret.
func (c Credential) String() string { return string(c.kind) + c.ID }

// Format hides the secret from every verb of fmt.
func (c Credential) Format(state fmt.State, _ rune) { _, _ = io.WriteString(state, c.String()) }

// LogValue hides the secret from slog.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

func alphanumeric(s string) bool {
	for i := range len(s) {
		if strings.IndexByte(alphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}

// random draws n characters, each equally likely: bytes beyond the last multiple of 62 are drawn again.
func random(n int) string {
	const fair = 256 / len(alphabet) * len(alphabet)
	text := make([]byte, 0, n)
	for len(text) < n {
		var drawn [64]byte
		_, _ = rand.Read(drawn[:]) // never fails, by its contract
		for _, b := range drawn {
			if int(b) < fair && len(text) < n {
				text = append(text, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(text)
}
