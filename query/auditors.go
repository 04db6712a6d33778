package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// AuditorToken is an auditor's token that is neither revoked nor expired.
type AuditorToken struct {
	Name         string    // of the auditor
	Organization uuid.UUID // whose audit trail it reads; zero for all
	Hash         []byte    // see package credential; compare in constant time
}

// AuditorCredential is an auditor's token in the operators' list.
type AuditorCredential struct {
	Credential

	Organization *uuid.UUID // whose audit trail it reads; nil for all
}

// AuditorToken finds a token that is valid at a time by its public part, or returns ErrNotFound.
func (q *Queries) AuditorToken(ctx context.Context, id string, now time.Time) (found AuditorToken, err error) {
	var organization uuid.NullUUID
	err = q.Pool.QueryRow(ctx, `SELECT name, organization, hash FROM auditors.tokens
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now).Scan(&found.Name,
		&organization, &found.Hash)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return AuditorToken{}, ErrNotFound
	case err != nil:
		return AuditorToken{}, fmt.Errorf("auditor's token: %w", err)
	}
	found.Organization = organization.UUID
	return found, nil
}

// AuditorTokens lists all tokens of auditors, including revoked and expired ones, oldest first.
func (q *Queries) AuditorTokens(ctx context.Context) ([]AuditorCredential, error) {
	rows, err := q.Pool.Query(ctx, `SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at,
		t.organization
		FROM auditors.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'ca_' || t.id
		ORDER BY t.created_at, t.id`)
	if err != nil {
		return nil, fmt.Errorf("auditors' tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AuditorCredential])
	if err != nil {
		return nil, fmt.Errorf("auditors' tokens: %w", err)
	}
	return list, nil
}
