package sealing

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/panics"
)

const (
	cacheFor     = 5 * time.Second // how long another node may still open what was shredded
	maxCached    = 10_000          // data keys
	digestLength = 16              // bytes
)

// ErrShredded: the owner has no data key. It was deleted with its owner, or never made.
var ErrShredded = errors.New("data key was shredded")

// KeyStore keeps the wrapped data key of each owner. Its errors come back as they are, so it marks those that pass.
type KeyStore interface {
	// Add keeps the key of an owner. If there is one already, that one stays.
	Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error
	// Find returns the key of an owner, or ErrShredded if there is none.
	Find(ctx context.Context, owner uuid.UUID) (wrapped []byte, err error)
	// Delete removes the key of an owner permanently. If there is none, it does nothing.
	Delete(ctx context.Context, owner uuid.UUID) error
}

// Vault seals and opens the values of owners. It is safe for concurrent use.
type Vault struct {
	keys KeyStore
	ring *Ring

	mu       sync.Mutex
	cache    map[uuid.UUID]dataKey
	sweeping bool   // a timer clears the cache of keys that are too old to be used
	shredded uint64 // counts calls of Shred: a key that was read before one of them is not cached after it
}

type dataKey struct {
	aead   cipher.AEAD
	digest []byte // keys the digests
	loaded time.Time
}

// NewVault makes a vault of a master key alone, of 32 bytes.
func NewVault(keys KeyStore, master []byte) (*Vault, error) {
	ring, err := NewRing(master)
	if err != nil {
		return nil, err
	}
	return NewVaultOn(keys, ring), nil
}

// NewVaultOn makes a vault whose data keys are wrapped by a ring's keys.
func NewVaultOn(keys KeyStore, ring *Ring) *Vault {
	return &Vault{keys: keys, ring: ring, cache: map[uuid.UUID]dataKey{}}
}

// Create makes the data key of a new owner. If there is one already, that one stays.
func (v *Vault) Create(ctx context.Context, owner uuid.UUID) error {
	raw := make([]byte, 2*keySize)
	_, _ = rand.Read(raw) // never fails, by its contract
	wrapped, err := v.ring.wrap(v.ring.Base(), owner, raw)
	if err != nil {
		return err
	}
	return v.keys.Add(ctx, owner, wrapped)
}

// Seal encrypts the value of a field for an owner. It returns ErrShredded if the owner has no data key.
func (v *Vault) Seal(ctx context.Context, owner uuid.UUID, field Field, plain []byte) ([]byte, error) {
	key, err := v.key(ctx, owner)
	if err != nil {
		return nil, err
	}
	return seal(key.aead, owner, field, plain), nil
}

// Open decrypts a value sealed for an owner and field, also by earlier versions for the owner alone. It returns
// ErrShredded after Shred, and ErrDamaged for anything else that it can't open.
func (v *Vault) Open(ctx context.Context, owner uuid.UUID, field Field, sealed []byte) ([]byte, error) {
	key, err := v.key(ctx, owner)
	if err != nil {
		return nil, err
	}
	return open(key.aead, owner, field, sealed)
}

// Digest is a keyed digest of 16 bytes: equal values of one owner have equal digests, those of two owners have not.
func (v *Vault) Digest(ctx context.Context, owner uuid.UUID, plain []byte) ([]byte, error) {
	key, err := v.key(ctx, owner)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key.digest)
	mac.Write(plain)
	return mac.Sum(nil)[:digestLength], nil
}

// Shred deletes the data key of an owner. In this process its values can't be opened from then on; another process may
// know the key for 5 seconds more.
func (v *Vault) Shred(ctx context.Context, owner uuid.UUID) error {
	if err := v.keys.Delete(ctx, owner); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shredded++
	delete(v.cache, owner)
	return nil
}

// key finds the data key of an owner.
func (v *Vault) key(ctx context.Context, owner uuid.UUID) (dataKey, error) {
	v.mu.Lock()
	key, cached := v.cache[owner]
	shredded := v.shredded
	v.mu.Unlock()
	if cached && time.Since(key.loaded) < cacheFor {
		return key, nil
	}
	loaded := time.Now() // before the read: that is how old the answer may be
	wrapped, err := v.keys.Find(ctx, owner)
	if err != nil {
		return dataKey{}, err
	}
	if key, err = v.unwrap(owner, wrapped); err != nil {
		return dataKey{}, fmt.Errorf("data key: %w", err)
	}
	key.loaded = loaded
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.shredded != shredded {
		return key, nil
	}
	if len(v.cache) >= maxCached {
		clear(v.cache)
	}
	v.cache[owner] = key
	if !v.sweeping {
		v.sweeping = true
		time.AfterFunc(cacheFor, panics.Func("vault", v.sweep))
	}
	return key, nil
}

// sweep drops the keys that are too old to be used: another process may have shredded them. While there are others it
// comes again, so a key is in memory for twice as long as it may be used, at most.
func (v *Vault) sweep() {
	v.mu.Lock()
	defer v.mu.Unlock()
	maps.DeleteFunc(v.cache, func(_ uuid.UUID, key dataKey) bool { return time.Since(key.loaded) >= cacheFor })
	if v.sweeping = len(v.cache) > 0; v.sweeping {
		time.AfterFunc(cacheFor, panics.Func("vault", v.sweep))
	}
}

func (v *Vault) unwrap(owner uuid.UUID, wrapped []byte) (dataKey, error) {
	raw, err := v.ring.unwrap(owner, wrapped)
	if err != nil {
		return dataKey{}, err
	}
	aead, err := newAEAD(raw[:keySize])
	return dataKey{aead: aead, digest: raw[keySize:]}, err
}
