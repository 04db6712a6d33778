package query

import (
	"context"
	"errors"
	"fmt"
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
	// Requests is the organization's limit in a second. nil means the default.
	Requests *int64
}

// Credential is an API key, or a token of an operator or auditor, in a list. It has neither the secret nor a digest
// of it.
type Credential struct {
	ID         string // the public part
	Name       string // purpose or holder; may be empty for a key
	CreatedAt  time.Time
	ExpiresAt  *time.Time // nil if it does not expire
	RevokedAt  *time.Time // nil if it is not revoked
	LastUsedAt *time.Time // to the hour; nil if unknown
}

// KeyCredential is an API key in a list.
type KeyCredential struct {
	Credential

	Scopes      []string
	SuccessorOf string // the key that it replaces; empty if none
}

// Organization is an organization in the operators' list.
type Organization struct {
	ID        uuid.UUID
	Name      string
	CreatedAt time.Time
	Status    string           // registered or suspended
	Limits    map[string]int64 // explicitly set ones, by name
}

// FindKeys returns the keys with some public parts that are valid at a time: a probe of the primary key for each. It
// omits keys that are unknown, revoked or expired, or whose organization is suspended.
func (q *Queries) FindKeys(ctx context.Context, ids []string, now time.Time) ([]Key, error) {
	rows, err := q.Pool.Query(ctx, `SELECT k.id, k.organization, k.hash, k.scopes, nullif(k.expires_at, 'infinity'),
		(o.limits->>'requestsPerSecond')::bigint
		FROM organizations.keys k JOIN organizations.organizations o ON o.id = k.organization
		WHERE k.id = ANY($1) AND k.revoked_at IS NULL AND k.expires_at > $2 AND o.status = 'registered'`, ids, now)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key Key, err error) {
		var expires *time.Time
		err = row.Scan(&key.ID, &key.Organization, &key.Hash, &key.Scopes, &expires, &key.Requests)
		if expires != nil {
			key.ExpiresAt = expires.UTC()
		}
		return key, err
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	return found, nil
}

const organizationColumns = "id, name, created_at, status, limits"

// Organization finds an organization, or returns ErrNotFound.
func (q *Queries) Organization(ctx context.Context, id uuid.UUID) (Organization, error) {
	rows, err := q.Pool.Query(ctx, "SELECT "+organizationColumns+" FROM organizations.organizations WHERE id = $1", id)
	if err != nil {
		return Organization{}, fmt.Errorf("organization: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Organization])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Organization{}, ErrNotFound
	case err != nil:
		return Organization{}, fmt.Errorf("organization: %w", err)
	}
	return found, nil
}

// SuspendedOrganizations lists the suspended organizations.
func (q *Queries) SuspendedOrganizations(ctx context.Context) ([]uuid.UUID, error) {
	rows, err := q.Pool.Query(ctx, "SELECT id FROM organizations.organizations WHERE status = 'suspended'")
	if err != nil {
		return nil, fmt.Errorf("suspended organizations: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("suspended organizations: %w", err)
	}
	return list, nil
}

// Organizations lists all organizations, oldest first.
func (q *Queries) Organizations(ctx context.Context) ([]Organization, error) {
	rows, err := q.Pool.Query(ctx, "SELECT "+organizationColumns+" FROM organizations.organizations ORDER BY "+
		"created_at, id")
	if err != nil {
		return nil, fmt.Errorf("organizations: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Organization])
	if err != nil {
		return nil, fmt.Errorf("organizations: %w", err)
	}
	return list, nil
}

// Keys lists an organization's keys, including revoked and expired ones, newest first. It returns ErrNotFound if
// there is no such organization.
func (q *Queries) Keys(ctx context.Context, organization uuid.UUID) ([]KeyCredential, error) {
	rows, err := q.Pool.Query(ctx, `SELECT k.id, k.name, k.created_at, nullif(k.expires_at, 'infinity'), k.revoked_at,
		u.used_at, k.scopes, k.successor_of
		FROM organizations.keys k LEFT JOIN carillon.credential_uses u ON u.credential = 'ck_' || k.id
		WHERE k.organization = $1 ORDER BY k.created_at DESC, k.id DESC`, organization)
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[KeyCredential])
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	known := len(list) > 0
	if !known {
		err = q.Pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM organizations.organizations WHERE id = $1)",
			organization).Scan(&known)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("keys: %w", err)
	case !known:
		return nil, ErrNotFound
	}
	return list, nil
}
