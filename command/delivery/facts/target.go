package facts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Target is a destination whose secrets, address and headers are in the clear. It is kept in memory only, and until
// its destination changes.
type Target struct {
	*destination.Target

	url     string
	headers map[string]string
	secrets []webhook.Secret
	until   time.Time // when it is to be opened again; zero means never
}

// mendPause is how long a target is used of which a secret can't be opened: it may be repaired.
const mendPause = time.Minute

// readTarget reads the current destination; nil if it was deleted.
func (f *Follower) readTarget(ctx context.Context, id uuid.UUID) (*Target, error) {
	known, err := destination.Aggregate.Load(ctx, f.Store, id)
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return nil, fmt.Errorf("read destination: %w", err)
	}
	found := known.State.Target(id)
	if found == nil {
		return nil, nil //nolint:nilnil // it was deleted
	}
	return OpenTarget(ctx, f.Vault, found, f.Now())
}

// target returns the current destination; nil if it was deleted.
func (f *Follower) target(ctx context.Context, id uuid.UUID, now time.Time) (*Target, error) {
	found, err := f.targets.get(ctx, id)
	if err == nil && found != nil && !found.until.IsZero() && !now.Before(found.until) {
		f.targets.forget(id)
		found, err = f.targets.get(ctx, id)
	}
	return found, err
}

// OpenTarget decrypts the address, the headers and the secrets that are active at a time.
func OpenTarget(ctx context.Context, vault Vault, t *destination.Target, now time.Time) (*Target, error) {
	opened := &Target{Target: t, url: t.URL}
	if len(t.Address) > 0 {
		plain, err := vault.Open(ctx, t.ID, sealing.Address, t.Address)
		if err != nil {
			return nil, fmt.Errorf("open address: %w", err)
		}
		opened.url = string(plain)
	}
	if len(t.Headers) > 0 {
		plain, err := vault.Open(ctx, t.ID, sealing.Headers, t.Headers)
		if err != nil {
			return nil, fmt.Errorf("open headers: %w", err)
		}
		if err := json.Unmarshal(plain, &opened.headers); err != nil {
			return nil, fmt.Errorf("open headers: %w", err)
		}
	}
	err := opened.openSecrets(ctx, vault, now)
	return opened, err
}

func (t *Target) openSecrets(ctx context.Context, vault Vault, now time.Time) error {
	var damaged error
	for _, sealed := range t.Secrets {
		if !sealed.ExpiresAt.IsZero() {
			if !now.Before(sealed.ExpiresAt) {
				continue
			}
			t.openAgain(sealed.ExpiresAt)
		}
		plain, err := vault.Open(ctx, t.ID, sealing.Secret, sealed.Sealed)
		if errors.Is(err, sealing.ErrDamaged) {
			damaged = fmt.Errorf("open secret: %w", err)
			t.openAgain(now.Add(mendPause))
			continue // the others sign
		}
		if err != nil {
			return fmt.Errorf("open secret: %w", err)
		}
		secret, err := webhook.ParseSecret(string(plain))
		if err != nil {
			return fmt.Errorf("open secret: %w", err)
		}
		t.secrets = append(t.secrets, secret)
	}
	if len(t.secrets) == 0 {
		return damaged
	}
	return nil
}

func (t *Target) openAgain(at time.Time) {
	if t.until.IsZero() || at.Before(t.until) {
		t.until = at
	}
}

// Request returns the request of a delivery to the target.
func (t *Target) Request(id uuid.UUID, body []byte, now time.Time, via http.RoundTripper) webhook.Request {
	return webhook.Request{
		URL:          t.url,
		Headers:      t.headers,
		Secrets:      t.secrets,
		ID:           id.String(),
		Body:         body,
		Now:          now,
		Via:          via,
		Organization: t.Organization,
	}
}
