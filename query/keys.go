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

// Holder is who has tokens of the admin API, and the name of the read model that has them.
type Holder string

// Holders of tokens.
const (
	Operators Holder = "operators"
	Auditors  Holder = "auditors"
)

// Token is a token of an operator or auditor that is neither revoked nor expired.
type Token struct {
	Name         string    // of its holder
	Organization uuid.UUID // whose audit trail an auditor reads; zero for all
	Hash         []byte    // see package credential; compare in constant time
}

// Token finds a token that is valid at a time by its public part, or returns ErrNotFound.
func (q *Queries) Token(ctx context.Context, of Holder, id string, now time.Time) (Token, error) {
	return one(ctx, q.Pool, "token of "+string(of), pgx.RowToStructByPos[Token],
		`SELECT name, (to_jsonb(t)->>'organization')::uuid, hash FROM `+string(of)+`.tokens t
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now)
}

// OperatorTokens lists all tokens of operators, including revoked and expired ones, by name, oldest first.
func (q *Queries) OperatorTokens(ctx context.Context) ([]Credential, error) {
	return many(ctx, q.Pool, "operators' tokens", pgx.RowToStructByPos[Credential],
		`SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at
		FROM operators.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'co_' || t.id
		ORDER BY t.name, t.created_at, t.id`)
}

// AuditorCredential is an auditor's token in the operators' list.
type AuditorCredential struct {
	Credential

	Organization *uuid.UUID `json:"organization"` // whose audit trail it reads; nil for all
}

// AuditorTokens lists all tokens of auditors, including revoked and expired ones, oldest first.
func (q *Queries) AuditorTokens(ctx context.Context) ([]AuditorCredential, error) {
	return many(ctx, q.Pool, "auditors' tokens", pgx.RowToStructByPos[AuditorCredential],
		`SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at,
		t.organization
		FROM auditors.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'ca_' || t.id
		ORDER BY t.created_at, t.id`)
}

// ClientCertificate is the certificate that an organization presents to its receivers.
type ClientCertificate struct {
	ID          uuid.UUID `json:"-"`
	Chain       string    `json:"certificate"` // PEM: the client certificate, and after it those that signed it
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serialNumber"` // hexadecimal
	Fingerprint string    `json:"fingerprint"`  // SHA-256, hexadecimal
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	DaysLeft    int       `json:"daysLeft" db:"-"` // whole days until it expires; negative: it has
	SetAt       time.Time `json:"setAt"`
	SetBy       string    `json:"setBy,omitempty"` // an actor, such as operator:ann
}

// ClientCertificate returns the certificate of an organization, or ErrNotFound.
func (q *Queries) ClientCertificate(ctx context.Context, organization uuid.UUID) (ClientCertificate, error) {
	return one(ctx, q.Pool, "client certificate", pgx.RowToStructByPos[ClientCertificate],
		`SELECT id, chain, subject, issuer, serial, fingerprint, not_before, not_after, set_at,
		set_by
		FROM client_certificates.certificates WHERE organization = $1 AND ended_at IS NULL`, organization)
}

// ExpiringCertificate is a client certificate and its expiry.
type ExpiringCertificate struct {
	Organization uuid.UUID
	Fingerprint  string
	NotAfter     time.Time
}

// ExpiringCertificates lists up to limit certificates that expire before a time or have expired, soonest first, and
// returns their total.
func (q *Queries) ExpiringCertificates(ctx context.Context, before time.Time,
	limit int) ([]ExpiringCertificate, int, error) {
	const where = " FROM client_certificates.certificates WHERE ended_at IS NULL AND not_after < $1"
	return counted(ctx, q.Pool, "client certificates", pgx.RowToStructByPos[ExpiringCertificate], statement{
		"SELECT organization, fingerprint, not_after" + where + " ORDER BY not_after, organization LIMIT $2",
		[]any{before, limit},
	}, statement{"SELECT count(*)" + where, []any{before}})
}

// SoonestExpiry returns the earliest expiry of the current client certificates, or false if there are none.
func (q *Queries) SoonestExpiry(ctx context.Context) (at time.Time, found bool, err error) {
	soonest, err := value[*time.Time](ctx, q.Pool, "client certificates",
		"SELECT min(not_after) FROM client_certificates.certificates WHERE ended_at IS NULL")
	if err != nil || soonest == nil {
		return at, false, err
	}
	return *soonest, true, nil
}
