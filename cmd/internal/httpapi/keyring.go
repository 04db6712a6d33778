package httpapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"carillon/cmd/internal/wire"
	"carillon/command/credential"
	"carillon/eventstore/panics"
	"carillon/query"
)

const (
	// keyTTL is how long what Postgres said of a key is taken for true without asking again: that it is valid, and that
	// it is not. Revocation has to work within a second on every node; the rest of that second is for the read model.
	keyTTL       = 400 * time.Millisecond
	keyTimeout   = 5 * time.Second // for one question to Postgres
	maxKeysAsked = 1000            // in one question

	maxKeysHeld    = 10_000
	maxKeysUnknown = 10_000
)

// keyring answers whether a key is valid, from memory for keyTTL. Look-ups are made one at a time, for all keys that
// have come up meanwhile: made-up keys cost other callers next to nothing, however many. Addresses that make up many
// get no look-ups: see wire.Credentials.
type keyring struct {
	keys  Keys
	now   func() time.Time
	known *wire.Credentials

	held    *lru.Cache[string, heldKey]   // keys that were valid when Postgres was asked last
	unknown *lru.Cache[string, time.Time] // invalid keys, and until when that is assumed

	mu     sync.Mutex
	next   *question // the waiting callers of the next question; nil if there are none
	asking bool
}

type heldKey struct {
	query.Key
	until time.Time
}

// question is one to Postgres about many keys.
type question struct {
	ids      map[string]struct{}
	answered chan struct{} // closed when there is an answer
	found    map[string]query.Key
	err      error
}

func newKeyring(keys Keys, now func() time.Time) *keyring {
	return &keyring{
		keys:    keys,
		now:     now,
		known:   wire.NewCredentials("keys", query.ErrNotFound),
		held:    wire.NewRecent[string, heldKey](maxKeysHeld),
		unknown: wire.NewRecent[string, time.Time](maxKeysUnknown),
	}
}

// verify returns the stored key of a presented one, or query.ErrNotFound. An address that has shown too many unknown
// keys is refused until it slows down, except for keys that were valid before.
func (k *keyring) verify(ctx context.Context, presented credential.Credential, from netip.Addr) (query.Key, error) {
	now := k.now()
	held, ok := k.held.Get(presented.ID)
	if !ok || !now.Before(held.until) {
		if until, _ := k.unknown.Get(presented.ID); now.Before(until) {
			return query.Key{}, query.ErrNotFound
		}
		err := k.known.LookUp(sha256.Sum256([]byte(presented.ID)), from, now, func() (err error) {
			held.Key, err = k.ask(ctx, presented.ID, now)
			return err
		})
		if err != nil {
			return query.Key{}, err
		}
	}
	known := held.Key
	if subtle.ConstantTimeCompare(known.Hash, presented.Hash()) != 1 ||
		!known.ExpiresAt.IsZero() && !now.Before(known.ExpiresAt) {
		return query.Key{}, query.ErrNotFound
	}
	return known, nil
}

// ask looks a key up with the next question.
func (k *keyring) ask(ctx context.Context, id string, now time.Time) (query.Key, error) {
	q := k.join(id)
	select {
	case <-q.answered:
	case <-ctx.Done():
		return query.Key{}, ctx.Err()
	}
	found, ok := q.found[id]
	if !ok && q.err != nil {
		return query.Key{}, q.err
	}
	k.keep(id, found, ok, now)
	if !ok {
		return query.Key{}, query.ErrNotFound
	}
	return found, nil
}

// join adds a key to the next question. The first one that waits for it has it asked, once the one before is answered.
func (k *keyring) join(id string) *question {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		k.next = &question{ids: map[string]struct{}{}, answered: make(chan struct{})}
	}
	q := k.next
	q.ids[id] = struct{}{}
	switch {
	case !k.asking:
		k.asking, k.next = true, nil
		go panics.Func("keys", func() { k.question(q) })()
	case len(q.ids) >= maxKeysAsked: // it is full: asked beside the one that is in progress
		k.next = nil
		go panics.Func("keys", func() { k.answer(q) })()
	}
	return q
}

// question asks until no caller waits.
func (k *keyring) question(q *question) {
	for q != nil {
		k.answer(q)
		k.mu.Lock()
		q, k.next = k.next, nil
		k.asking = q != nil
		k.mu.Unlock()
	}
}

// answer asks one question. No caller's going away ends it: others may wait for its answer.
func (k *keyring) answer(q *question) {
	defer close(q.answered)
	ctx, cancel := context.WithTimeout(context.Background(), keyTimeout)
	defer cancel()
	ids := make([]string, 0, len(q.ids))
	for id := range q.ids {
		ids = append(ids, id)
	}
	q.found = map[string]query.Key{}
	q.err = panics.Catch("keys", func() error {
		found, err := k.keys.FindKeys(ctx, ids, k.now())
		for _, key := range found {
			q.found[key.ID] = key
		}
		return err
	})
}

// keep remembers an answer from the time at which the request began, when it may have been younger than it is.
func (k *keyring) keep(id string, key query.Key, valid bool, now time.Time) {
	if !valid {
		k.held.Remove(id)
		k.unknown.Add(id, now.Add(keyTTL))
		return
	}
	k.unknown.Remove(id)
	k.held.Add(id, heldKey{Key: key, until: now.Add(keyTTL)})
}
