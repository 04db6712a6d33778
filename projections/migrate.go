package projections

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the tables that are not read models (checkpoints, data keys, counters) to the present form. Several
// processes may do it at once.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	// A migration holds a lock of a transaction, which works behind a pooler, too.
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", lockKey("migrations"))
		if err == nil {
			err = migrate(ctx, pool, dir)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("migrations: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, dir fs.FS) error {
	// Named with its schema: which one comes first on the search path depends on the user's name.
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS carillon"); err != nil {
		return err
	}
	if err := checkReleased(ctx, pool); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithTableName("carillon.migrations"))
	if err != nil {
		return err
	}
	_, err = provider.Up(ctx)
	return err
}

// firstStep is the number of the first schema. Steps before it were never released.
const firstStep = 30

// checkReleased refuses a database that a version before the first schema made and no later one has migrated.
func checkReleased(ctx context.Context, pool *pgxpool.Pool) error {
	var known bool
	if err := pool.QueryRow(ctx, "SELECT to_regclass('carillon.migrations') IS NOT NULL").Scan(&known); err != nil ||
		!known {
		return err
	}
	var step int64
	if err := pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM carillon.migrations").Scan(&step); err != nil {
		return err
	}
	if step > 0 && step < firstStep {
		return fmt.Errorf("the database is of an unreleased version (step %d of %d): "+
			"start the last version that has all steps with it once, then this one", step, firstStep)
	}
	return nil
}

// CheckVersion refuses a version of this program, as in "1.1.0" or "1.1.0-dev", if a later one requires a newer one.
func CheckVersion(ctx context.Context, pool *pgxpool.Pool, version string) error {
	var known bool
	err := pool.QueryRow(ctx, "SELECT to_regclass('carillon.required_versions') IS NOT NULL").Scan(&known)
	if err != nil || !known {
		return err
	}
	var required, why string
	err = pool.QueryRow(ctx, `SELECT version, why FROM carillon.required_versions
		WHERE string_to_array(version, '.')::int[] > string_to_array(split_part($1, '-', 1), '.')::int[]
		ORDER BY string_to_array(version, '.')::int[] DESC LIMIT 1`, version).Scan(&required, &why)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("this is version %s, and the database was used by %s, after which no older one can run on it (%s): "+
		"start %s or a newer one, or restore a backup from before", version, required, why, required)
}

// SchemaDigest returns a digest of Migrate's tables and of the schemas of read models.
func SchemaDigest(models ...ReadModel) string {
	h := sha256.New()
	files, _ := fs.Glob(migrations, "migrations/*.sql") // the pattern is well-formed
	for _, file := range files {
		content, _ := migrations.ReadFile(file) // embedded
		_, _ = h.Write(content)
	}
	for _, model := range models {
		_, _ = io.WriteString(h, model.Name+model.Schema)
	}
	return hex.EncodeToString(h.Sum(nil))
}
