package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Key is an API key that is neither revoked nor expired.
type Key struct {
	ID           string
	Organization uuid.UUID
	Hash         []byte    // see package credential; compare in constant time
	Scopes       []string  // read, write, secrets
	ExpiresAt    time.Time // zero if it does not expire
}

// Credential is an API key, or a token of an operator or auditor, in a list. It has neither the secret nor a digest
// of it.
type Credential struct {
	ID         string     `json:"id"`   // the public part
	Name       string     `json:"name"` // purpose or holder; may be empty for a key
	CreatedAt  time.Time  `json:"createdAt"`
	ExpiresAt  *time.Time `json:"expiresAt"`  // nil if it does not expire
	RevokedAt  *time.Time `json:"revokedAt"`  // nil if it is not revoked
	LastUsedAt *time.Time `json:"lastUsedAt"` // to the hour; nil if unknown
}

// KeyCredential is an API key in a list.
type KeyCredential struct {
	Credential

	Scopes      []string `json:"scopes"`
	SuccessorOf *string  `json:"successorOf"` // the key that it replaces; nil if none
}

// FindKeys returns the keys with some public parts that are valid at a time: a probe of the primary key for each. It
// omits keys that are unknown, revoked or expired, or whose organization is suspended.
func (q *Queries) FindKeys(ctx context.Context, ids []string, now time.Time) ([]Key, error) {
	return many(ctx, q.Pool, "keys", func(row pgx.CollectableRow) (key Key, err error) {
		var expires *time.Time
		err = row.Scan(&key.ID, &key.Organization, &key.Hash, &key.Scopes, &expires)
		if expires != nil {
			key.ExpiresAt = expires.UTC()
		}
		return key, err
	}, `SELECT k.id, k.organization, k.hash, k.scopes, nullif(k.expires_at, 'infinity')
		FROM organizations.keys k JOIN organizations.organizations o ON o.id = k.organization
		WHERE k.id = ANY($1) AND k.revoked_at IS NULL AND k.expires_at > $2 AND o.status = 'registered'`, ids, now)
}

// Keys lists an organization's keys, including revoked and expired ones, newest first. It returns ErrNotFound if
// there is no such organization.
func (q *Queries) Keys(ctx context.Context, organization uuid.UUID) ([]KeyCredential, error) {
	keys, err := many(ctx, q.Pool, "keys", pgx.RowToStructByPos[KeyCredential],
		`SELECT k.id, k.name, k.created_at, nullif(k.expires_at, 'infinity'), k.revoked_at, u.used_at, k.scopes,
			nullif(k.successor_of, '')
		FROM organizations.keys k LEFT JOIN carillon.credential_uses u ON u.credential = 'ck_' || k.id
		WHERE k.organization = $1 ORDER BY k.created_at DESC, k.id DESC`, organization)
	if err == nil && len(keys) == 0 {
		_, err = q.Organization(ctx, organization)
	}
	return keys, err
}
