package destination

import (
	"time"

	"github.com/google/uuid"
)

// Target is a destination as an attempt needs it.
type Target struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Enabled      bool
	URL          string // if Address is empty
	Address      []byte // the URL, sealed
	Headers      []byte // sealed
	Secrets      []SealedSecret
	Plain
}

// SealedSecret is a secret as it is stored. A zero ExpiresAt means never.
type SealedSecret struct {
	ID        uuid.UUID
	Sealed    []byte
	ExpiresAt time.Time
}

// Target returns the destination as an attempt needs it, with secrets that have expired; nil if it does not exist.
func (s State) Target(id uuid.UUID) *Target {
	if s.Status == StatusNone || s.Status == StatusDeleted {
		return nil
	}
	t := &Target{
		ID:           id,
		Organization: s.Organization,
		Enabled:      s.Status == StatusEnabled,
		URL:          s.Settings.URL,
		Address:      s.Settings.Address.Data,
		Headers:      s.Settings.Headers.Data,
		Secrets:      make([]SealedSecret, len(s.Secrets)),
		Plain:        s.Settings.Plain,
	}
	for i, secret := range s.Secrets {
		t.Secrets[i] = SealedSecret{ID: secret.ID, Sealed: secret.Sealed, ExpiresAt: secret.ExpiresAt}
	}
	return t
}
