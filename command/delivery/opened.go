package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/command/webhook"
)

// openedTargets keeps the secrets, addresses and headers of recent targets in the clear, in memory only, and nothing of
// those that were deleted.
type openedTargets struct {
	vault Vault
	mu    sync.Mutex
	known map[uuid.UUID]openedTarget
	// ended are those that were deleted lately: they can be opened until their keys are shredded, by requests that were
	// made out before, but they are not kept. Every maxOpened of them those that ended earlier are left out: by then
	// their keys are long gone.
	ended, endedBefore map[uuid.UUID]struct{}
}

type openedTarget struct {
	of      *destination.Target
	until   time.Time // the next expiry among the secrets
	url     string
	headers map[string]string
	secrets []webhook.Secret
	via     http.RoundTripper // with the organization's client certificate; it is not kept here
}

const maxOpened = 10_000

func newOpenedTargets(vault Vault) *openedTargets {
	return &openedTargets{vault: vault, known: map[uuid.UUID]openedTarget{}, ended: map[uuid.UUID]struct{}{}}
}

// forget drops what is known of a destination that has changed.
func (o *openedTargets) forget(id uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, id)
}

// end drops what is known of a destination that was deleted, and keeps nothing of it from then on.
func (o *openedTargets) end(id uuid.UUID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.known, id)
	if len(o.ended) >= maxOpened {
		o.ended, o.endedBefore = map[uuid.UUID]struct{}{}, o.ended
	}
	o.ended[id] = struct{}{}
}

// keep remembers what was opened, unless its destination has been deleted meanwhile.
func (o *openedTargets) keep(opened openedTarget) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := opened.of.ID
	if _, ended := o.ended[id]; ended {
		return
	}
	if _, ended := o.endedBefore[id]; ended {
		return
	}
	if len(o.known) >= maxOpened {
		clear(o.known)
	}
	o.known[id] = opened
}

// open decrypts the address, the headers and the secrets that are active at a time.
func (o *openedTargets) open(ctx context.Context, t *destination.Target, now time.Time) (openedTarget, error) {
	o.mu.Lock()
	found, ok := o.known[t.ID]
	o.mu.Unlock()
	if ok && found.of == t && (found.until.IsZero() || now.Before(found.until)) {
		return found, nil
	}
	opened := openedTarget{of: t, url: t.URL}
	if len(t.Address) > 0 {
		plain, err := o.vault.Open(ctx, t.ID, sealing.Address, t.Address)
		if err != nil {
			return opened, fmt.Errorf("open address: %w", err)
		}
		opened.url = string(plain)
	}
	if len(t.Headers) > 0 {
		plain, err := o.vault.Open(ctx, t.ID, sealing.Headers, t.Headers)
		if err != nil {
			return opened, fmt.Errorf("open headers: %w", err)
		}
		if err := json.Unmarshal(plain, &opened.headers); err != nil {
			return opened, fmt.Errorf("open headers: %w", err)
		}
	}
	var damaged error
	for _, sealed := range t.Secrets {
		if !sealed.ExpiresAt.IsZero() {
			if !now.Before(sealed.ExpiresAt) {
				continue
			}
			if opened.until.IsZero() || sealed.ExpiresAt.Before(opened.until) {
				opened.until = sealed.ExpiresAt
			}
		}
		plain, err := o.vault.Open(ctx, t.ID, sealing.Secret, sealed.Sealed)
		if errors.Is(err, sealing.ErrDamaged) {
			damaged = fmt.Errorf("open secret: %w", err)
			continue // the others sign
		}
		if err != nil {
			return opened, fmt.Errorf("open secret: %w", err)
		}
		secret, err := webhook.ParseSecret(string(plain))
		if err != nil {
			return opened, fmt.Errorf("open secret: %w", err)
		}
		opened.secrets = append(opened.secrets, secret)
	}
	if damaged != nil {
		if len(opened.secrets) == 0 {
			return opened, damaged
		}
		return opened, nil // not kept: it may be mended
	}
	o.keep(opened)
	return opened, nil
}
