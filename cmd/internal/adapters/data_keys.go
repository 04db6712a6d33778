package adapters

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command"
	"carillon/command/sealing"
)

// DataKeys implements sealing.KeyStore in the table carillon.data_keys. A failure of Postgres is a
// command.ErrUnavailable: the same may work later.
type DataKeys struct{ Pool *pgxpool.Pool }

var _ sealing.KeyStore = DataKeys{}

// Add implements sealing.KeyStore.
func (k DataKeys) Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	_, err := k.Pool.Exec(ctx, "INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING", owner, wrapped)
	return unavailable("create data key", err)
}

// Find implements sealing.KeyStore.
func (k DataKeys) Find(ctx context.Context, owner uuid.UUID) (wrapped []byte, err error) {
	err = k.Pool.QueryRow(ctx, "SELECT wrapped FROM carillon.data_keys WHERE id = $1", owner).Scan(&wrapped)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, sealing.ErrShredded
	}
	return wrapped, unavailable("load data key", err)
}

// Delete implements sealing.KeyStore.
func (k DataKeys) Delete(ctx context.Context, owner uuid.UUID) error {
	_, err := k.Pool.Exec(ctx, "DELETE FROM carillon.data_keys WHERE id = $1", owner)
	return unavailable("shred data key", err)
}

// unavailable marks a failure of Postgres as one that passes.
func unavailable(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w: %w", what, command.ErrUnavailable, err)
}
