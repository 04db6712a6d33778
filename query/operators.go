package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// OperatorToken is an operator's token that is neither revoked nor expired.
type OperatorToken struct {
	Name string // of the operator
	Hash []byte // see package credential; compare in constant time
}

// OperatorToken finds a token that is valid at a time by its public part, or returns ErrNotFound.
func (q *Queries) OperatorToken(ctx context.Context, id string, now time.Time) (found OperatorToken, err error) {
	err = q.Pool.QueryRow(ctx, `SELECT name, hash FROM operators.tokens
		WHERE id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2)`, id, now).Scan(&found.Name,
		&found.Hash)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return OperatorToken{}, ErrNotFound
	case err != nil:
		return OperatorToken{}, fmt.Errorf("operator's token: %w", err)
	}
	return found, nil
}

// OperatorTokens lists all tokens of operators, including revoked and expired ones, by name, oldest first.
func (q *Queries) OperatorTokens(ctx context.Context) ([]Credential, error) {
	rows, err := q.Pool.Query(ctx, `SELECT t.id, t.name, t.created_at, t.expires_at, t.revoked_at, u.used_at
		FROM operators.tokens t LEFT JOIN carillon.credential_uses u ON u.credential = 'co_' || t.id
		ORDER BY t.name, t.created_at, t.id`)
	if err != nil {
		return nil, fmt.Errorf("operators' tokens: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Credential])
	if err != nil {
		return nil, fmt.Errorf("operators' tokens: %w", err)
	}
	return list, nil
}
