package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// OperatorToken is an operator's token that is neither revoked nor expired.
type OperatorToken struct {
	Name string // of the operator
	Hash []byte // see package credential; compare in constant time
}

// OperatorToken finds a token that is valid at a time by its public part, or returns ErrNotFound.
func (q *Queries) OperatorToken(ctx context.Context, id string, now time.Time) (OperatorToken, error) {
	return one(ctx, q.Pool, "operator's token", pgx.RowToStructByPos[OperatorToken],
		`SELECT name, hash FROM operators.tokens
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now)
}

// OperatorTokens lists all tokens of operators, including revoked and expired ones, by name, oldest first.
func (q *Queries) OperatorTokens(ctx context.Context) ([]Credential, error) {
	return many(ctx, q.Pool, "operators' tokens", pgx.RowToStructByPos[Credential],
		`SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at
		FROM operators.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'co_' || t.id
		ORDER BY t.name, t.created_at, t.id`)
}

// AuditorToken is an auditor's token that is neither revoked nor expired.
type AuditorToken struct {
	Name         string    // of the auditor
	Organization uuid.UUID // whose audit trail it reads; zero for all
	Hash         []byte    // see package credential; compare in constant time
}

// AuditorCredential is an auditor's token in the operators' list.
type AuditorCredential struct {
	Credential

	Organization *uuid.UUID `json:"organization"` // whose audit trail it reads; nil for all
}

// AuditorToken finds a token that is valid at a time by its public part, or returns ErrNotFound.
func (q *Queries) AuditorToken(ctx context.Context, id string, now time.Time) (AuditorToken, error) {
	return one(ctx, q.Pool, "auditor's token", pgx.RowToStructByPos[AuditorToken],
		`SELECT name, organization, hash FROM auditors.tokens
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now)
}

// AuditorTokens lists all tokens of auditors, including revoked and expired ones, oldest first.
func (q *Queries) AuditorTokens(ctx context.Context) ([]AuditorCredential, error) {
	return many(ctx, q.Pool, "auditors' tokens", pgx.RowToStructByPos[AuditorCredential],
		`SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at,
		t.organization
		FROM auditors.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'ca_' || t.id
		ORDER BY t.created_at, t.id`)
}
