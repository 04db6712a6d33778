package sealing

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// oneKey is a key store in which each owner has the key that was added last.
type oneKey struct{ wrapped []byte }

func (k *oneKey) Add(_ context.Context, _ uuid.UUID, wrapped []byte) error {
	k.wrapped = wrapped
	return nil
}
func (k *oneKey) Find(context.Context, uuid.UUID) ([]byte, error) { return k.wrapped, nil }
func (k *oneKey) Delete(context.Context, uuid.UUID) error         { return nil }

// TestNoKeyStaysInMemory: an unused key is dropped, whichever process has shredded it.
func TestNoKeyStaysInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := must.Get(NewVault(&oneKey{}, bytes.Repeat([]byte{7}, keySize)))(t)
		cached := func() int {
			synctest.Wait()
			v.mu.Lock()
			defer v.mu.Unlock()
			return len(v.cache)
		}
		for range 2 { // once more after it has rested
			owner := uuid.New()
			must.OK(t, v.Create(t.Context(), owner))
			for i := range 4 {
				must.Get(v.Seal(t.Context(), owner, Secret, []byte("hers")))(t)
				if n := cached(); n != 1 {
					t.Errorf("%d keys while one is used, after %d seconds", n, 3*i)
				}
				time.Sleep(3 * time.Second) // the clock of the bubble
			}
			time.Sleep(2 * cacheFor)
			assert.Equal(t, cached(), 0, "unused keys are in memory")
		}
	})
}
