package wire

import (
	"carillon/aggregates/destination"
	"carillon/query"
)

// TargetOf is the part of a destination that a request needs. A disabled destination can be tested too, so that its
// owner can check a repair.
func TargetOf(d query.Destination) *destination.Target {
	target := &destination.Target{
		ID:           d.ID,
		Organization: d.Organization,
		Enabled:      d.Status == "enabled",
		URL:          d.URL,
		Address:      d.Address.Data,
		Headers:      d.Headers.Data,
		Plain:        d.Plain,
	}
	for _, secret := range d.Secrets {
		sealed := destination.SealedSecret{ID: secret.ID, Sealed: secret.Sealed}
		if secret.ExpiresAt != nil {
			sealed.ExpiresAt = *secret.ExpiresAt
		}
		target.Secrets = append(target.Secrets, sealed)
	}
	return target
}
