package delivery

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
)

// Target is a destination as an attempt needs it. It is never changed once made.
type Target struct {
	ID              uuid.UUID           `json:"id"`
	Revision        eventstore.Revision `json:"revision,omitzero"` // of the destination's last event in it
	Organization    uuid.UUID           `json:"organization"`
	Enabled         bool                `json:"enabled"`
	URL             string              `json:"url"`
	Headers         []byte              `json:"headers,omitempty"` // sealed
	DebounceSeconds int                 `json:"debounceSeconds"`
	Secrets         []SealedSecret      `json:"secrets"`
}

// SealedSecret is a secret as it is stored. A zero ExpiresAt means never.
type SealedSecret struct {
	ID        uuid.UUID `json:"id"`
	Sealed    []byte    `json:"sealed"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// after is the target as an event of its destination leaves it; nil where it was deleted. The target itself stays. An
// event that is in it already changes nothing.
func (t *Target) after(id uuid.UUID, revision eventstore.Revision, event destination.Event) *Target {
	next := Target{ID: id}
	if t != nil {
		next = *t
		if revision <= t.Revision && t.Revision > 0 {
			return t
		}
	}
	next.Revision = revision
	switch e := event.(type) {
	case destination.Created:
		next.Organization, next.Enabled = e.Organization, true
		next.set(e.URL, e.Headers, e.DebounceWindowSeconds)
	case destination.Revised:
		next.set(e.URL, e.Headers, e.DebounceWindowSeconds)
	case destination.SecretMinted:
		next.sign(next.keep(e.At), SealedSecret{ID: e.SecretID, Sealed: e.Sealed})
	case destination.SecretRotated:
		next.Secrets = next.keep(e.At)
		for _, id := range e.Expiring {
			next.expire(id, e.ExpiresAt)
		}
		next.sign(next.Secrets, SealedSecret{ID: e.SecretID, Sealed: e.Sealed})
	case destination.SecretExpired:
		next.Secrets = next.keep(e.At)
		next.expire(e.SecretID, e.At)
	case destination.Enabled:
		next.Enabled = true
	case destination.Disabled, destination.AutoDisabled:
		next.Enabled = false
	case destination.Deleted:
		return nil
	}
	return &next
}

func (t *Target) set(url string, headers destination.Sealed, debounceSeconds int) {
	t.URL, t.Headers, t.DebounceSeconds = url, headers.Data, debounceSeconds
}

// sign adds a secret, once.
func (t *Target) sign(kept []SealedSecret, added SealedSecret) {
	t.Secrets = slices.DeleteFunc(kept, func(s SealedSecret) bool { return s.ID == added.ID })
	t.Secrets = append(t.Secrets, added)
}

// keep copies the secrets that still sign at a time.
func (t *Target) keep(at time.Time) []SealedSecret {
	kept := make([]SealedSecret, 0, len(t.Secrets)+1)
	for _, secret := range t.Secrets {
		if secret.ExpiresAt.IsZero() || at.Before(secret.ExpiresAt) {
			kept = append(kept, secret)
		}
	}
	return kept
}

func (t *Target) expire(id uuid.UUID, at time.Time) {
	for i := range t.Secrets {
		if t.Secrets[i].ID == id {
			t.Secrets[i].ExpiresAt = at
		}
	}
}
