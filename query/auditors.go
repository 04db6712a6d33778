package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditorHash finds a token that is valid at a time by its public part, and returns the digest of its secret: see
// credential.Credential, and compare in constant time. It returns ErrNotFound for one that is unknown, revoked or
// expired.
func (q *Queries) AuditorHash(ctx context.Context, id string, now time.Time) ([]byte, error) {
	var hash []byte
	err := q.Pool.QueryRow(ctx, `SELECT hash FROM auditors.tokens
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now).Scan(&hash)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("auditor's token: %w", err)
	}
	return hash, nil
}

// AuditorTokens lists all tokens that read the audit trail, dead ones too, oldest first.
func (q *Queries) AuditorTokens(ctx context.Context) ([]Credential, error) {
	rows, err := q.Pool.Query(ctx, "SELECT id, name, created_at, expires_at, revoked_at FROM auditors.tokens ORDER BY created_at, id")
	if err != nil {
		return nil, fmt.Errorf("auditors' tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Credential])
	if err != nil {
		return nil, fmt.Errorf("auditors' tokens: %w", err)
	}
	return list, nil
}
