package httpapi

import (
	"context"
	"crypto/subtle"
	"net/netip"
	"sync"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/command/credential"
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

// keyring answers whether a key is valid, from memory for keyTTL. What it has to ask, it asks in one question at a
// time, for all keys that have come up meanwhile: keys that somebody makes up cost others next to nothing, however many.
// And who makes up many is not asked for: see wire.Askers.
type keyring struct {
	keys   Keys
	now    func() time.Time
	askers *wire.Askers

	held    *wire.Recent[string, heldKey]   // keys that were valid when Postgres was asked last
	unknown *wire.Recent[string, time.Time] // what was no valid key, and until when that is taken for true

	mu     sync.Mutex
	next   *question // who waits for the next question; nil while nobody does
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
		keys: keys, now: now, askers: wire.NewAskers(),
		held: wire.NewRecent[string, heldKey](maxKeysHeld), unknown: wire.NewRecent[string, time.Time](maxKeysUnknown),
	}
}

// verify returns the stored key that a presented one is, or query.ErrNotFound. An address that has asked for too many
// keys that nobody has is refused until it slows down, but for keys that were valid before.
func (k *keyring) verify(ctx context.Context, presented credential.Credential, from netip.Addr) (query.Key, error) {
	now := k.now()
	known, standing := k.look(presented.ID, now)
	switch standing {
	case keyFresh:
	case keyUnknown:
		return query.Key{}, query.ErrNotFound
	case keyStale:
		var err error
		if known, err = k.ask(ctx, presented.ID, now); err != nil {
			return query.Key{}, err
		}
	case keyNew:
		err := k.askers.Take(from, now, "keys")
		if err != nil {
			return query.Key{}, err
		}
		if known, err = k.ask(ctx, presented.ID, now); err != nil {
			return query.Key{}, err
		}
		k.askers.GiveBack(from)
	}
	if subtle.ConstantTimeCompare(known.Hash, presented.Hash()) != 1 || !known.ExpiresAt.IsZero() && !now.Before(known.ExpiresAt) {
		return query.Key{}, query.ErrNotFound
	}
	return known, nil
}

// keyStanding is what memory says of a key.
type keyStanding int

const (
	keyNew     keyStanding = iota // nothing
	keyFresh                      // it is valid
	keyStale                      // it was valid, and Postgres has to be asked whether it is
	keyUnknown                    // it is not valid
)

func (k *keyring) look(id string, now time.Time) (query.Key, keyStanding) {
	held, ok := k.held.Get(id)
	until, _ := k.unknown.Get(id)
	switch {
	case ok && now.Before(held.until):
		return held.Key, keyFresh
	case ok:
		return query.Key{}, keyStale
	case now.Before(until):
		return query.Key{}, keyUnknown
	}
	return query.Key{}, keyNew
}

// ask looks a key up with the next question.
func (k *keyring) ask(ctx context.Context, id string, now time.Time) (query.Key, error) {
	q := k.join(id)
	select {
	case <-q.answered:
	case <-ctx.Done():
		return query.Key{}, ctx.Err()
	}
	if q.err != nil {
		return query.Key{}, q.err
	}
	found, ok := q.found[id]
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
		go k.question(q)
	case len(q.ids) >= maxKeysAsked: // it is full: asked beside the one that is under way
		k.next = nil
		go k.answer(q)
	}
	return q
}

// question asks until nobody waits.
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
	found, err := k.keys.FindKeys(ctx, ids, k.now())
	q.err, q.found = err, make(map[string]query.Key, len(found))
	for _, key := range found {
		q.found[key.ID] = key
	}
}

// keep remembers an answer from the time at which the request began, when it may have been younger than it is.
func (k *keyring) keep(id string, key query.Key, valid bool, now time.Time) {
	if !valid {
		k.held.Forget(id)
		k.unknown.Set(id, now.Add(keyTTL))
		return
	}
	k.unknown.Forget(id)
	k.held.Set(id, heldKey{Key: key, until: now.Add(keyTTL)})
}
