package sealing_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/command/sealing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	alice = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	bob   = uuid.MustParse("33333333-3333-4333-8333-333333333333")

	master = bytes.Repeat([]byte{7}, 32)
)

// memory is a key store whose keys tests can exchange. Two vaults on one of it are two processes on one Postgres.
type memory struct {
	mu   sync.Mutex
	keys map[uuid.UUID][]byte
	find func() // where not nil, runs after a key was read and before it is handed out
}

func newMemory() *memory { return &memory{keys: map[uuid.UUID][]byte{}} }

func (m *memory) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.keys[owner]; !there {
		m.keys[owner] = wrapped
	}
	return nil
}

func (m *memory) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	m.mu.Lock()
	wrapped, there := m.keys[owner]
	m.mu.Unlock()
	if m.find != nil {
		m.find()
	}
	if !there {
		return nil, sealing.ErrShredded
	}
	return wrapped, nil
}

func (m *memory) Delete(_ context.Context, owner uuid.UUID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.keys, owner)
	return nil
}

func newVault(t testing.TB, keys sealing.KeyStore, owners ...uuid.UUID) *sealing.Vault {
	t.Helper()
	v := must.Get(sealing.NewVault(keys, master))(t)
	for _, owner := range owners {
		must.OK(t, v.Create(t.Context(), owner))
	}
	return v
}

func seal(t testing.TB, v *sealing.Vault, owner uuid.UUID, plain string) []byte {
	t.Helper()
	sealed := must.Get(v.Seal(t.Context(), owner, sealing.Secret, []byte(plain)))(t)
	return sealed
}

// refused expects that a value does not open, with an error that holds nothing of it.
func refused(t testing.TB, v *sealing.Vault, owner uuid.UUID, sealed []byte, want error) {
	t.Helper()
	plain, err := v.Open(t.Context(), owner, sealing.Secret, sealed)
	assert.True(t, errors.Is(err, want) && plain == nil, "opened to %q, error = %v, want %v", plain, err, want)
}

func TestSealedOpensForItsOwner(t *testing.T) {
	t.Parallel()
	v := newVault(t, newMemory(), alice)
	rapid.Check(t, func(r *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(r, "plain")
		sealed, err := v.Seal(t.Context(), alice, sealing.Secret, plain)
		if err != nil {
			r.Fatal(err)
		}
		if len(plain) > 3 && bytes.Contains(sealed, plain) {
			r.Errorf("the sealed value shows the plain one: %x", sealed)
		}
		again, err := v.Seal(t.Context(), alice, sealing.Secret, plain)
		if err != nil || bytes.Equal(sealed, again) {
			r.Errorf("sealed twice to the same bytes: %x, error = %v", sealed, err)
		}
		if opened, err := v.Open(t.Context(), alice, sealing.Secret, sealed); err != nil || !bytes.Equal(opened, plain) {
			r.Errorf("opened %x, error = %v, want %x", opened, err, plain)
		}
	})
}

// Data of version 1 for alice: her data key under the master key above, a value, and the digest of "stored".
const (
	storedKey = "01935c9a8d69177919820ffb678ac7448dda8236d093ae0048196ee2f1333ebfb6df82f11db0ea8888aee88b4fb636ddb4" +
		"6b0b47" +
		"cd2afe9142ae10aa679ba9ea5133288cd24d76f670768027d7cf9a188c76e987f260b47c2417835707"
	storedValue  = "01dc75fbf3292bad0b47c8cfc390ea30458a458bdf19a2a3d037d152fddc5be9d58c6ac2d22d96441e0b3f"
	storedDigest = "1f79e44f1c31deed3d5cf7b555a3bac4"
)

var fields = []sealing.Field{sealing.Secret, sealing.Address, sealing.Headers, sealing.ResponseBody, sealing.PrivateKey}

// storedFields are values that version 3 stored for alice.
var storedFields = map[sealing.Field]string{
	sealing.Secret: "03e7d3285cb6390c25d8ddb5007c9bbe14686bfccda999d426c0b2cb24d47f65" +
		"ad19d7855d3e8690b4a8e31df0b16eb7",
	sealing.Address: "03a300be0f6c6cb54c97d500b29822ac257dbd5f0f01c65a40a8aa96536afe1a" +
		"f84543609a7553b35fe9d7544c84f9e3",
	sealing.Headers: "03216ed6e55da73896b4b6ac6d3e9f6b9d50108d3a8c8bacbb8e439636900887" +
		"2c6fd3d285593e3e049ad795df79d426",
	sealing.ResponseBody: "03b39f245160c9c4511f7f72d24e7ba1de389019f75c7634f7fbb9340b005df3" +
		"bffffdcc91ea4ab42cc127a9e327aa2a",
	sealing.PrivateKey: "0322da4bb6b7fcd21501f869edfaf71ec5c68a5fb70f46185b14c32946aec026" +
		"551b40b80dfbdd9debcd101d62c6d235",
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw := must.Get(hex.DecodeString(text))(t)
	return raw
}

// TestStoredFormStays opens what an earlier version of the program stored.
func TestStoredFormStays(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	keys.keys[alice] = unhex(t, storedKey)
	v := newVault(t, keys, alice)  // Create leaves the key that is there
	for _, field := range fields { // it was bound to none
		plain, err := v.Open(t.Context(), alice, field, unhex(t, storedValue))
		assert.True(t, err == nil && string(plain) == "whsec_c3RvcmVk", "opened as %s: %q, error = %v", field, plain, err)
	}
	for field, stored := range storedFields {
		plain, err := v.Open(t.Context(), alice, field, unhex(t, stored))
		assert.True(t, err == nil && string(plain) == "stored in its field",
			"opened as %s: %q, error = %v", field, plain, err)
	}
	digest, err := v.Digest(t.Context(), alice, []byte("stored"))
	assert.True(t, err == nil && bytes.Equal(digest, unhex(t, storedDigest)),
		"digest = %x, error = %v, want %s", digest, err, storedDigest)
}

// A value that was changed in any byte, cut, prolonged or given to another owner does not open.
func TestChangedValuesAreRefused(t *testing.T) {
	t.Parallel()
	v := newVault(t, newMemory(), alice, bob)
	sealed := seal(t, v, alice, "whsec_secret")
	for i := range sealed {
		changed := bytes.Clone(sealed)
		changed[i] ^= 1
		refused(t, v, alice, changed, sealing.ErrDamaged)
		refused(t, v, alice, sealed[:i], sealing.ErrDamaged)
	}
	refused(t, v, alice, append(bytes.Clone(sealed), 0), sealing.ErrDamaged)
	refused(t, v, bob, sealed, sealing.ErrDamaged)
}

func TestSealedValueOpensInItsFieldOnly(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	v := newVault(t, keys, alice)
	for _, sealedAs := range fields {
		sealed := must.Get(v.Seal(t.Context(), alice, sealedAs, []byte("whsec_secret")))(t)
		asBefore := bytes.Clone(sealed)
		asBefore[0] = 1 // the version that is bound to no field
		for _, field := range fields {
			var want error
			if field != sealedAs {
				want = sealing.ErrDamaged
			}
			assert.Is(t, assert.Err(v.Open(t.Context(), alice, field, sealed)), want,
				"sealed as %s, opened as %s: error", sealedAs, field)
			assert.Is(t, assert.Err(ring(t).OpenWith(alice, field, keys.keys[alice], sealed)), want,
				"sealed as %s, opened as %s with its key: error", sealedAs, field)
			assert.Is(t, assert.Err(v.Open(t.Context(), alice, field, asBefore)), sealing.ErrDamaged,
				"sealed as %s, opened as %s of version 1: error", sealedAs, field)
		}
	}
}

func ring(t testing.TB) *sealing.Ring {
	t.Helper()
	r := must.Get(sealing.NewRing(master))(t)
	return r
}

func TestKeysSwappedBetweenOwnersAreRefused(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	v := newVault(t, keys, alice, bob)
	sealed := seal(t, v, alice, "alice's")
	keys.keys[bob] = keys.keys[alice]
	// Not even with alice's own key, kept under bob's name, does bob open what is hers.
	refused(t, newVault(t, keys), bob, sealed, sealing.ErrDamaged)
}

func TestDamagedKeysAreRefused(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	v := newVault(t, keys, alice)
	sealed, wrapped := seal(t, v, alice, "alice's"), keys.keys[alice]
	short := seal(t, v, alice, strings.Repeat("k", 64)) // of the right length, wrapped by another key than the master
	for _, damaged := range [][]byte{nil, wrapped[:1], wrapped[:len(wrapped)-1],
		append([]byte{3}, wrapped[1:]...), short} {
		keys.keys[alice] = damaged
		refused(t, newVault(t, keys), alice, sealed, sealing.ErrDamaged)
	}
}

func TestAnotherMasterKeyOpensNothing(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	sealed := seal(t, newVault(t, keys, alice), alice, "alice's")
	other := must.Get(sealing.NewVault(keys, bytes.Repeat([]byte{8}, 32)))(t)
	refused(t, other, alice, sealed, sealing.ErrDamaged)
	assert.Is(t, assert.Err(other.Seal(t.Context(), alice, sealing.Secret, []byte("x"))), sealing.ErrDamaged,
		"seal: error")
	for _, length := range []int{0, 16, 31, 33} {
		_, err := sealing.NewVault(keys, make([]byte, length))
		assert.True(t, err != nil, "a master key of %d bytes was accepted", length)
	}
}

func TestDigestsTellValuesOfOneOwnerApart(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	v := newVault(t, keys, alice, bob)
	digest := func(v *sealing.Vault, owner uuid.UUID, plain string) string {
		t.Helper()
		d, err := v.Digest(t.Context(), owner, []byte(plain))
		must.True(t, err == nil && len(d) == 16, "digest has %d bytes, error = %v", len(d), err)
		return string(d)
	}
	assert.Equal(t, digest(v, alice, "a"), digest(newVault(t, keys), alice, "a"),
		"two processes digest one value differently")
	seen := map[string]bool{digest(v, alice, "a"): true, digest(v, alice, "b"): true, digest(v, bob, "a"): true}
	if len(seen) != 3 {
		t.Errorf("digests collide: %x", slices.Collect(maps.Keys(seen)))
	}
}

func TestShreddedDoesNotOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := newMemory()
		here, there := newVault(t, keys, alice, bob), newVault(t, keys)
		hers, his := seal(t, here, alice, "hers"), seal(t, here, bob, "his")
		must.Get(there.Open(t.Context(), alice, sealing.Secret, hers))(t)
		for range 2 { // twice is once
			must.OK(t, here.Shred(t.Context(), alice))
		}
		refused(t, here, alice, hers, sealing.ErrShredded)
		assert.Is(t, assert.Err(here.Seal(t.Context(), alice, sealing.Secret, []byte("more"))), sealing.ErrShredded,
			"seal: error")
		assert.Is(t, assert.Err(here.Digest(t.Context(), alice, []byte("more"))), sealing.ErrShredded, "digest: error")
		time.Sleep(5 * time.Second) // the clock of the bubble
		refused(t, there, alice, hers, sealing.ErrShredded)
		assert.Equal(t, string(must.Get(here.Open(t.Context(), bob, sealing.Secret, his))(t)), "his",
			"bob's value opened to … error =")
		// A new key of the same owner opens nothing of the old one.
		must.OK(t, here.Create(t.Context(), alice))
		refused(t, here, alice, hers, sealing.ErrDamaged)
	})
}

// TestKeyReadWhileShreddedIsNotKept: the reader has the key in hand when it is deleted.
func TestKeyReadWhileShreddedIsNotKept(t *testing.T) {
	t.Parallel()
	keys := newMemory()
	sealed := seal(t, newVault(t, keys, alice), alice, "hers")
	v := newVault(t, keys)
	keys.find = func() {
		assert.OK(t, v.Shred(t.Context(), alice))
	}
	if _, err := v.Open(t.Context(), alice, sealing.Secret, sealed); err != nil {
		t.Fatal(err) // it was read before
	}
	keys.find = nil
	refused(t, v, alice, sealed, sealing.ErrShredded)
}
