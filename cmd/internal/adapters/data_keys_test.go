package adapters_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/projections/projecttest"
)

func vault(t *testing.T, pool *pgxpool.Pool) *sealing.Vault {
	t.Helper()
	v, err := sealing.NewVault(adapters.DataKeys{Pool: pool}, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDataKeysOutliveTheProcessUntilTheyAreShredded(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	alice, bob, v := uuid.New(), uuid.New(), vault(t, pool)
	for _, owner := range []uuid.UUID{alice, alice, bob} { // the second time changes nothing
		if err := v.Create(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	sealed, err := v.Seal(t.Context(), alice, sealing.Secret, []byte("hers"))
	if err != nil {
		t.Fatal(err)
	}
	restarted := vault(t, pool)
	if plain, err := restarted.Open(t.Context(), alice, sealing.Secret, sealed); err != nil || string(plain) != "hers" {
		t.Errorf("after a restart: opened %q, error = %v", plain, err)
	}
	if _, err := restarted.Open(t.Context(), bob, sealing.Secret, sealed); !errors.Is(err, sealing.ErrDamaged) {
		t.Errorf("for another owner: error = %v, want ErrDamaged", err)
	}
	for range 2 {
		if err := restarted.Shred(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []*sealing.Vault{restarted, vault(t, pool)} {
		if _, err := v.Open(t.Context(), alice, sealing.Secret, sealed); !errors.Is(err, sealing.ErrShredded) {
			t.Errorf("after it was shredded: error = %v, want ErrShredded", err)
		}
	}
	if _, err := vault(t, pool).Seal(t.Context(), bob, sealing.Secret, []byte("his")); err != nil {
		t.Errorf("another owner: %v", err)
	}
}

func TestDataKeysAreUnavailableWithoutPostgres(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	v := vault(t, pool)
	_, sealErr := v.Seal(t.Context(), uuid.New(), sealing.Secret, nil)
	for what, err := range map[string]error{
		"create": v.Create(t.Context(), uuid.New()), "seal": sealErr, "shred": v.Shred(t.Context(), uuid.New()),
	} {
		if !errors.Is(err, command.ErrUnavailable) || errors.Is(err, sealing.ErrShredded) {
			t.Errorf("%s: error = %v, want ErrUnavailable alone", what, err)
		}
	}
}
