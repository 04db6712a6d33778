package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/query"
)

const (
	// keyTTL is how long a key that was found is taken for valid without asking again. Revocation has to work within a
	// second on every node; the rest of that second is for the read model.
	keyTTL      = 400 * time.Millisecond
	keyTimeout  = 5 * time.Second // for one question to Postgres
	maxKeysHeld = 10_000
)

// keyring answers whether a key is valid, from memory for keyTTL.
type keyring struct {
	find   func(ctx context.Context, id string, now time.Time) (query.Key, error)
	now    func() time.Time
	asking singleflight.Group // many requests with one key ask once
	mu     sync.Mutex
	held   map[string]heldKey
}

type heldKey struct {
	query.Key
	until time.Time
}

func newKeyring(find func(context.Context, string, time.Time) (query.Key, error), now func() time.Time) *keyring {
	return &keyring{find: find, now: now, held: map[string]heldKey{}}
}

// verify returns the stored key that a presented one is, or query.ErrNotFound.
func (k *keyring) verify(ctx context.Context, presented credential.Credential) (query.Key, error) {
	now := k.now()
	known, fresh := k.get(presented.ID, now)
	if !fresh {
		var err error
		if known, err = k.ask(ctx, presented.ID, now); err != nil {
			return query.Key{}, err
		}
	}
	if subtle.ConstantTimeCompare(known.Hash, presented.Hash()) != 1 || !known.ExpiresAt.IsZero() && !now.Before(known.ExpiresAt) {
		return query.Key{}, query.ErrNotFound
	}
	return known, nil
}

func (k *keyring) get(id string, now time.Time) (query.Key, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	held, ok := k.held[id]
	return held.Key, ok && now.Before(held.until)
}

// ask looks a key up. The caller's going away does not end the question: others may wait for its answer.
func (k *keyring) ask(ctx context.Context, id string, now time.Time) (query.Key, error) {
	answer, err, _ := k.asking.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keyTimeout)
		defer cancel()
		key, err := k.find(ctx, id, now)
		if err == nil {
			k.keep(key, now)
		}
		return key, err
	})
	key, _ := answer.(query.Key)
	return key, err
}

func (k *keyring) keep(key query.Key, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.held) >= maxKeysHeld {
		for id, held := range k.held {
			if !now.Before(held.until) {
				delete(k.held, id)
			}
		}
		if len(k.held) >= maxKeysHeld {
			clear(k.held)
		}
	}
	k.held[key.ID] = heldKey{Key: key, until: now.Add(keyTTL)}
}

// authenticate lets only requests with a valid key through. It reads nothing of them but the header.
func (a *API) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := a.keyOf(r)
		if err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		wire.Note(r.Context(), slog.String("organization", key.Organization.String()), slog.String("key", key.ID))
		caller := command.Caller{Organization: key.Organization, Actor: "key:" + key.ID, RequestID: wire.RequestIDOf(r.Context())}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

func (a *API) keyOf(r *http.Request) (query.Key, error) {
	header := r.Header.Values("Authorization")
	if len(header) == 0 {
		return query.Key{}, unauthenticated(r, "the API key is missing: send it in the header Authorization: Bearer <key>")
	}
	scheme, token, _ := strings.Cut(header[0], " ")
	presented, ok := credential.Parse(credential.APIKey, strings.TrimSpace(token))
	if len(header) > 1 || !strings.EqualFold(scheme, "Bearer") || !ok {
		return query.Key{}, unauthenticated(r, "the Authorization header must be Bearer and one API key, which begins with ck_")
	}
	key, err := a.keys.verify(r.Context(), presented)
	if errors.Is(err, query.ErrNotFound) {
		return query.Key{}, unauthenticated(r, "the API key is not valid: it is unknown, expired or revoked")
	}
	return key, err
}

// unauthenticated refuses a request. The feed surface has one sentence for all causes, which its clients know.
func unauthenticated(r *http.Request, issue string) error {
	if surfaceOf(r) == wire.Feeds {
		issue = "Invalid or missing API key"
	}
	return &wire.Failure{Kind: wire.Unauthenticated, Issue: issue}
}

type callerKey struct{}

// callerOf says on whose behalf a request runs.
func callerOf(r *http.Request) command.Caller {
	caller, _ := r.Context().Value(callerKey{}).(command.Caller)
	return caller
}
