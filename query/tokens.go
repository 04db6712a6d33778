package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

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
