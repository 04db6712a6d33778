package sealing

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// wrapVersion is the first byte of a data key that is wrapped by a named key:
//
//	version (1 byte) ‖ id of the wrapping key (8 bytes) ‖ sealed value, which authenticates owner and id
const wrapVersion = 2

// KeyID names a key. It is derived from the key and reveals nothing of it.
type KeyID [8]byte

// String is the id as messages show it.
func (id KeyID) String() string { return hex.EncodeToString(id[:]) }

// ErrUnknownKey: a data key is wrapped by a key that is not in the ring.
var ErrUnknownKey = fmt.Errorf("%w: it is wrapped by a key that is not known here", ErrDamaged)

// ErrNoKey: the ring has no such key.
var ErrNoKey = errors.New("no such key in the ring")

// Ring has the keys that wrap data keys: one or two master keys, while one takes the other's place, and the epoch keys
// that were not destroyed yet. A data key is wrapped by a master key alone, or by a master key and an epoch key
// together: then opening it needs both. It is safe for concurrent use.
type Ring struct {
	mu      sync.RWMutex
	masters []masterKey // the one in use first
	epochs  [][]byte    // oldest first; the last is in use
	keys    map[KeyID]wrapping
}

type wrapping struct {
	aead   cipher.AEAD
	master KeyID
}

type masterKey struct {
	id    KeyID
	raw   []byte
	plain cipher.AEAD // of data keys that name no key: earlier versions wrapped so
}

// MasterID names a master key.
func MasterID(master []byte) (KeyID, error) {
	id, _, err := wrappingKey(master, nil)
	return id, err
}

// wrappingKey is derived from a master key and, if there is one, an epoch key.
func wrappingKey(master, epoch []byte) (id KeyID, aead cipher.AEAD, err error) {
	if len(master) != keySize {
		return id, nil, fmt.Errorf("key has %d bytes, want %d", len(master), keySize)
	}
	key, err := hkdf.Key(sha256.New, master, epoch, "carillon data key wrapping", keySize)
	if err != nil {
		return id, nil, err
	}
	name, err := hkdf.Key(sha256.New, key, nil, "carillon key id", len(id))
	if err != nil {
		return id, nil, err
	}
	copy(id[:], name)
	aead, err = newAEAD(key)
	return id, aead, err
}

// NewRing makes a ring of a master key of 32 bytes, and others that data keys may be wrapped by.
func NewRing(master []byte, others ...[]byte) (*Ring, error) {
	r := &Ring{}
	for _, raw := range append([][]byte{master}, others...) {
		if err := r.AddMaster(raw); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// AddMaster adds a master key, which is not in use by that.
func (r *Ring) AddMaster(raw []byte) error {
	id, err := MasterID(raw)
	if err != nil {
		return fmt.Errorf("master key: %w", err)
	}
	plain, err := newAEAD(raw)
	if err != nil {
		return fmt.Errorf("master key: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.ContainsFunc(r.masters, func(m masterKey) bool { return m.id == id }) {
		r.masters = append(r.masters, masterKey{id: id, raw: slices.Clone(raw), plain: plain})
	}
	return r.derive()
}

// UseMaster wraps by a master key of the ring from now on.
func (r *Ring) UseMaster(id KeyID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.IndexFunc(r.masters, func(m masterKey) bool { return m.id == id })
	if at < 0 {
		return fmt.Errorf("master key %s: %w", id, ErrNoKey)
	}
	used := r.masters[at]
	r.masters = slices.Insert(slices.Delete(r.masters, at, at+1), 0, used)
	return nil
}

// OnlyMaster forgets all master keys but one, which is in use from now on.
func (r *Ring) OnlyMaster(id KeyID) error {
	if err := r.UseMaster(id); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.masters = r.masters[:1]
	return r.derive()
}

// Masters are the ids of the master keys; the first is in use.
func (r *Ring) Masters() []KeyID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]KeyID, len(r.masters))
	for i, m := range r.masters {
		ids[i] = m.id
	}
	return ids
}

// UseEpochs replaces the epoch keys, oldest first: the last is in use.
func (r *Ring) UseEpochs(keys [][]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epochs = slices.Clone(keys)
	return r.derive()
}

// derive makes the wrapping key of every master key alone and with every epoch key.
func (r *Ring) derive() error {
	keys := map[KeyID]wrapping{}
	for _, m := range r.masters {
		for _, epoch := range append([][]byte{nil}, r.epochs...) {
			id, aead, err := wrappingKey(m.raw, epoch)
			if err != nil {
				return err
			}
			keys[id] = wrapping{aead: aead, master: m.id}
		}
	}
	r.keys = keys
	return nil
}

// Base names the master key in use: data keys that it wraps open with it alone.
func (r *Ring) Base() KeyID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.masters[0].id
}

// Current names the master key in use together with the newest epoch key, if there is one.
func (r *Ring) Current() (KeyID, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.epochs) == 0 {
		return r.masters[0].id, nil
	}
	id, _, err := wrappingKey(r.masters[0].raw, r.epochs[len(r.epochs)-1])
	return id, err
}

// MasterOf names the master key that a wrapping key is derived from; false if the ring has no such key.
func (r *Ring) MasterOf(id KeyID) (master KeyID, known bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, known := r.keys[id]
	return key.master, known
}

// WrappedBy names the key that a data key is wrapped by; false if it names none.
func WrappedBy(wrapped []byte) (id KeyID, named bool) {
	if len(wrapped) <= 1+len(id) || wrapped[0] != wrapVersion {
		return id, false
	}
	copy(id[:], wrapped[1:])
	return id, true
}

// Prefix is how everything begins that a key has wrapped.
func Prefix(by KeyID) []byte { return append([]byte{wrapVersion}, by[:]...) }

// wrap seals the raw data key of an owner.
func (r *Ring) wrap(by KeyID, owner uuid.UUID, raw []byte) ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	key, known := r.keys[by]
	if !known {
		return nil, fmt.Errorf("wrap by key %s: %w", by, ErrNoKey)
	}
	sealed := sealFor(key.aead, ownerVersion, bound(owner, by), raw)
	return append(Prefix(by), sealed...), nil
}

// unwrap opens the data key of an owner, whichever key of the ring it is wrapped by.
func (r *Ring) unwrap(owner uuid.UUID, wrapped []byte) ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	id, named := WrappedBy(wrapped)
	var raw []byte
	err := ErrDamaged
	key, known := r.keys[id]
	switch {
	case named && !known:
		return nil, ErrUnknownKey
	case named:
		raw, err = openFor(key.aead, ownerVersion, bound(owner, id), wrapped[1+len(id):])
	default:
		for _, m := range r.masters {
			if raw, err = openFor(m.plain, ownerVersion, owner[:], wrapped); err == nil {
				break
			}
		}
	}
	if err == nil && len(raw) != 2*keySize {
		err = ErrDamaged
	}
	return raw, err
}

// Authenticate returns an HMAC-SHA256 of a text under a key that is derived from a master key of the ring for one
// purpose. It returns ErrNoKey if the ring has no such master key.
func (r *Ring) Authenticate(master KeyID, purpose string, text []byte) ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	at := slices.IndexFunc(r.masters, func(m masterKey) bool { return m.id == master })
	if at < 0 {
		return nil, fmt.Errorf("master key %s: %w", master, ErrNoKey)
	}
	key, err := hkdf.Key(sha256.New, r.masters[at].raw, nil, "carillon authentication: "+purpose, keySize)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return mac.Sum(nil), nil
}

func bound(owner uuid.UUID, by KeyID) []byte { return append(slices.Clone(owner[:]), by[:]...) }

// Rewrap wraps a data key by another key of the ring.
func (r *Ring) Rewrap(by KeyID, owner uuid.UUID, wrapped []byte) ([]byte, error) {
	raw, err := r.unwrap(owner, wrapped)
	if err != nil {
		return nil, err
	}
	return r.wrap(by, owner, raw)
}

// Opens reports whether the ring opens the wrapped data key of an owner; nil means that it does.
func (r *Ring) Opens(owner uuid.UUID, wrapped []byte) error {
	_, err := r.unwrap(owner, wrapped)
	return err
}

// Same reports whether two wrapped data keys of an owner are the same one. Both must open.
func (r *Ring) Same(owner uuid.UUID, one, other []byte) (bool, error) {
	a, err := r.unwrap(owner, one)
	if err != nil {
		return false, err
	}
	b, err := r.unwrap(owner, other)
	return slices.Equal(a, b), err
}

// OpenWith opens the value of a field with a wrapped data key of its owner, which need not be the one that is kept.
func (r *Ring) OpenWith(owner uuid.UUID, field Field, wrapped, sealed []byte) ([]byte, error) {
	raw, err := r.unwrap(owner, wrapped)
	if err != nil {
		return nil, err
	}
	aead, err := newAEAD(raw[:keySize])
	if err != nil {
		return nil, err
	}
	return open(aead, owner, field, sealed)
}
