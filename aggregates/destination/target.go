package destination

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Target is a destination as attempts need it: the dispatcher folds it from events and stores it as JSON, and a claim
// reads it from the read model. It is immutable.
type Target struct {
	ID              uuid.UUID           `json:"id"`
	Revision        eventstore.Revision `json:"revision,omitzero"` // of the destination's last event in it
	Organization    uuid.UUID           `json:"organization"`
	Enabled         bool                `json:"enabled"`
	URL             string              `json:"url"`               // if Address is empty
	Address         []byte              `json:"address,omitempty"` // the URL, sealed
	Headers         []byte              `json:"headers,omitempty"` // sealed
	DebounceSeconds int                 `json:"debounceSeconds"`
	Secrets         []SealedSecret      `json:"secrets"`
}

// SealedSecret is a stored secret. A zero ExpiresAt means no expiry.
type SealedSecret struct {
	ID        uuid.UUID `json:"id"`
	Sealed    []byte    `json:"sealed"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// After returns the target after an event of its destination; nil after its deletion. An event that is in it already
// changes nothing.
func (t *Target) After(id uuid.UUID, revision eventstore.Revision, event Event) *Target {
	next := Target{ID: id}
	if t != nil {
		next = *t
		if revision <= t.Revision && t.Revision > 0 {
			return t
		}
	}
	next.Revision = revision
	switch e := event.(type) {
	case Created:
		next.Organization, next.Enabled = e.Organization, true
		next.set(e.Settings)
	case Revised:
		next.set(e.Settings)
	case SecretMinted:
		next.sign(next.keep(e.At), SealedSecret{ID: e.SecretID, Sealed: e.Sealed})
	case SecretRotated:
		next.Secrets = next.keep(e.At)
		for _, id := range e.Expiring {
			next.expire(id, e.ExpiresAt)
		}
		next.sign(next.Secrets, SealedSecret{ID: e.SecretID, Sealed: e.Sealed})
	case SecretExpired:
		next.Secrets = next.keep(e.At)
		next.expire(e.SecretID, e.At)
	case Enabled:
		next.Enabled = true
	case Disabled, AutoDisabled:
		next.Enabled = false
	case Deleted:
		return nil
	}
	return &next
}

func (t *Target) set(s Settings) {
	t.URL, t.Address, t.Headers, t.DebounceSeconds = s.URL, s.Address.Data, s.Headers.Data, s.DebounceWindowSeconds
}

// sign adds a secret, once.
func (t *Target) sign(kept []SealedSecret, added SealedSecret) {
	t.Secrets = slices.DeleteFunc(kept, func(s SealedSecret) bool { return s.ID == added.ID })
	t.Secrets = append(t.Secrets, added)
}

// keep returns a copy of the secrets that still sign at a time.
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
