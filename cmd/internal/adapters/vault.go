package adapters

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command"
)

const (
	keySize     = 32
	sealVersion = 1               // first byte of each sealed value
	cacheFor    = 5 * time.Second // how long another node may still open what was forgotten
	maxCached   = 10_000
)

// Vault implements command.Vault. Envelope encryption: a value is sealed with AES-256-GCM under the data key of its
// destination, the data key under the master key. Data keys live in Postgres, outside the event log: deleting one makes
// all that was sealed with it unreadable, in the log and its backups too.
type Vault struct {
	pool   *pgxpool.Pool
	master cipher.AEAD

	mu    sync.Mutex
	cache map[uuid.UUID]dataKey
}

var _ command.Vault = (*Vault)(nil)

type dataKey struct {
	aead   cipher.AEAD
	digest []byte // key of the digests
	loaded time.Time
}

// NewVault makes a vault; the master key is 32 bytes.
func NewVault(pool *pgxpool.Pool, master []byte) (*Vault, error) {
	aead, err := newAEAD(master)
	if err != nil {
		return nil, fmt.Errorf("master key: %w", err)
	}
	return &Vault{pool: pool, master: aead, cache: map[uuid.UUID]dataKey{}}, nil
}

// Create implements command.Vault.
func (v *Vault) Create(ctx context.Context, destination uuid.UUID) error {
	raw := make([]byte, 2*keySize) // one half encrypts, the other digests
	_, _ = rand.Read(raw)          // never fails, see crypto/rand
	_, err := v.pool.Exec(ctx, "INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		destination, seal(v.master, destination, raw))
	if err != nil {
		return unavailable("create data key", err)
	}
	return nil
}

// Seal implements command.Vault.
func (v *Vault) Seal(ctx context.Context, destination uuid.UUID, plain []byte) ([]byte, error) {
	key, err := v.key(ctx, destination)
	if err != nil {
		return nil, err
	}
	return seal(key.aead, destination, plain), nil
}

// Open implements command.Vault.
func (v *Vault) Open(ctx context.Context, destination uuid.UUID, sealed []byte) ([]byte, error) {
	key, err := v.key(ctx, destination)
	if err != nil {
		return nil, err
	}
	return open(key.aead, destination, sealed)
}

// Digest implements command.Vault.
func (v *Vault) Digest(ctx context.Context, destination uuid.UUID, plain []byte) ([]byte, error) {
	key, err := v.key(ctx, destination)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key.digest)
	mac.Write(plain)
	return mac.Sum(nil)[:16], nil
}

// Forget implements command.Vault.
func (v *Vault) Forget(ctx context.Context, destination uuid.UUID) error {
	if _, err := v.pool.Exec(ctx, "DELETE FROM carillon.data_keys WHERE id = $1", destination); err != nil {
		return unavailable("forget data key", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.cache, destination)
	return nil
}

// key finds the data key of a destination.
func (v *Vault) key(ctx context.Context, destination uuid.UUID) (dataKey, error) {
	v.mu.Lock()
	key, ok := v.cache[destination]
	v.mu.Unlock()
	if ok && time.Since(key.loaded) < cacheFor {
		return key, nil
	}
	var wrapped []byte
	err := v.pool.QueryRow(ctx, "SELECT wrapped FROM carillon.data_keys WHERE id = $1", destination).Scan(&wrapped)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return dataKey{}, command.ErrForgotten
	case err != nil:
		return dataKey{}, unavailable("load data key", err)
	}
	raw, err := open(v.master, destination, wrapped)
	if err != nil {
		return dataKey{}, fmt.Errorf("data key: %w (was the master key changed?)", err)
	}
	if key.aead, err = newAEAD(raw[:keySize]); err != nil {
		return dataKey{}, fmt.Errorf("data key: %w", err)
	}
	key.digest, key.loaded = raw[keySize:], time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cache) >= maxCached {
		clear(v.cache)
	}
	v.cache[destination] = key
	return key, nil
}

// unavailable marks a failure of Postgres as one that passes.
func unavailable(what string, err error) error {
	return fmt.Errorf("%s: %w: %w", what, command.ErrUnavailable, err)
}

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

// seal binds the value to its owner: moved to another destination it does not open.
func seal(aead cipher.AEAD, owner uuid.UUID, plain []byte) []byte {
	sealed := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(plain)+aead.Overhead())
	sealed[0] = sealVersion
	_, _ = rand.Read(sealed[1:]) // never fails, see crypto/rand
	return aead.Seal(sealed, sealed[1:], plain, owner[:])
}

func open(aead cipher.AEAD, owner uuid.UUID, sealed []byte) ([]byte, error) {
	n := 1 + aead.NonceSize()
	if len(sealed) < n || sealed[0] != sealVersion {
		return nil, errors.New("not a sealed value")
	}
	plain, err := aead.Open(nil, sealed[1:n], sealed[n:], owner[:])
	if err != nil {
		return nil, errors.New("sealed value can't be opened with this key")
	}
	return plain, nil
}
