package apitest

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"carillon/command/sealing"
)

// Keys are data keys in memory.
type Keys struct {
	mu   sync.Mutex
	kept map[uuid.UUID][]byte
}

var _ sealing.KeyStore = (*Keys)(nil)

// Add implements sealing.KeyStore.
func (k *Keys) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[uuid.UUID][]byte{}
	}
	if k.kept[owner] == nil {
		k.kept[owner] = wrapped
	}
	return nil
}

// Find implements sealing.KeyStore.
func (k *Keys) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[owner] == nil {
		return nil, sealing.ErrShredded
	}
	return k.kept[owner], nil
}

// Delete implements sealing.KeyStore.
func (k *Keys) Delete(_ context.Context, owner uuid.UUID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.kept, owner)
	return nil
}

// Len returns the number of keys.
func (k *Keys) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}
