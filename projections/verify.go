package projections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// Verification is the result of a comparison of a read model with its events.
type Verification struct {
	At          time.Time
	Sample      float64 // percent of the rows that were compared
	Rows        int64   // that were compared
	Differing   int64   // of them, and of those that no event makes
	Differences []Difference
}

// Difference is a row that is not as the events make it.
type Difference struct {
	Table   string            `json:"table"`
	Key     map[string]string `json:"key"`               // the columns of its primary key
	Kind    string            `json:"kind"`              // one of the constants below
	Columns []string          `json:"columns,omitempty"` // of a changed row: those that differ
	// Expected and Found are the values of the columns by the events and in the row, shortened. Sealed ones are left out.
	Expected []*string `json:"expected,omitempty"`
	Found    []*string `json:"found,omitempty"`
}

// Kinds of a Difference.
const (
	RowChanged = "changed"
	RowMissing = "missing"
	RowAdded   = "added" // no event makes it
)

// maxDifferences is how many differing rows a Verification names.
const maxDifferences = 100

// maxBehind is how long a verification waits until the read model has applied what was recorded at its start.
const maxBehind = time.Minute

var errBehind = errors.New("the read model is behind the event store; carillon projections status shows by how much")

// Verify folds the log again beside the read model that serves, and compares the rows as of one position. Nothing waits
// for it. sample is the percentage of the rows to compare, chosen by chance; report as in Rebuild. The result is stored
// for all processes.
func (r *Runner) Verify(
	ctx context.Context, m ReadModel, sample float64, report func(at, head eventstore.Position),
) (v Verification, err error) {
	ctx, release, err := r.lockRebuild(ctx, m.Name) // no rebuild may swap the tables meanwhile
	if err == nil {
		defer release()
		v, err = r.verify(ctx, m, sample, report)
	}
	if err != nil {
		return Verification{}, fmt.Errorf("verify %s: %w", m.Name, err)
	}
	return v, nil
}

func (r *Runner) verify(
	ctx context.Context, m ReadModel, sample float64, report func(at, head eventstore.Position),
) (Verification, error) {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return Verification{}, err
	}
	b, err := r.beginRebuild(ctx, m)
	if err != nil {
		return Verification{}, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
		defer cancel()
		_ = b.dropUnfinished(ctx) // else the next rebuild or verification does
	}()
	b.report = func(at eventstore.Position) {
		if report != nil {
			report(at, head)
		}
	}
	if err := b.fill(ctx); err != nil {
		return Verification{}, err
	}
	if err := b.analyze(ctx); err != nil {
		return Verification{}, err
	}
	v := Verification{Sample: sample}
	err = b.inTime(ctx, func(ctx context.Context) error {
		waiting, cancel := context.WithTimeout(ctx, maxBehind)
		defer cancel()
		if !r.Progress.Await(waiting, b.position, m.Name) {
			return errors.Join(ctx.Err(), errBehind)
		}
		return b.compare(ctx, &v)
	})
	if err == nil {
		err = v.save(ctx, r, m.Name)
	}
	return v, err
}

// compare compares the tables in one snapshot, in which the shadow is brought to the position of the rows that serve.
func (b *rebuild) compare(ctx context.Context, v *Verification) error {
	tables, err := b.tables(ctx)
	if err != nil {
		return fmt.Errorf("list the tables: %w", err)
	}
	return pgx.BeginTxFunc(ctx, b.shadow.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		for _, t := range tables { // before the snapshot, in which tables that are made later would be empty
			if _, err := tx.Exec(ctx, "LOCK TABLE "+t.live+" IN ACCESS SHARE MODE"); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, scoped, b.shadow.path()); err != nil {
			return err
		}
		if err := b.align(ctx, tx); err != nil {
			return err
		}
		seed := rand.Int64() //nolint:gosec // chooses a sample, protects nothing
		for _, t := range tables {
			if err := t.compare(ctx, tx, seed, v); err != nil {
				return fmt.Errorf("compare %s: %w", t.name, err)
			}
		}
		return nil
	})
}

// align applies to the shadow what the rows that serve have in addition.
func (b *rebuild) align(ctx context.Context, tx pgx.Tx) error {
	held, there, err := loadCheckpoint(ctx, tx, b.model.Name)
	switch {
	case err != nil:
		return err
	case !there || !b.model.made(held.fingerprint):
		return errors.New("another version of the program has made the read model")
	case held.outdated != "" || held.incomplete:
		return errors.New("the read model is being built; verify it when that is done")
	case held.anchor == b.anchor:
		return nil
	case held.position.Before(b.position):
		return errBehind
	}
	b.to = held.position
	defer func() { b.to = eventstore.Start }()
	return b.reach(ctx, tx, held)
}

// save stores the result. That of a sample does not replace differences that it has not found.
func (v *Verification) save(ctx context.Context, r *Runner, name string) error {
	err := r.Pool.QueryRow(ctx, `WITH saved AS (
			INSERT INTO carillon.verifications (name, sample, rows, differing, differences) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (name) DO UPDATE SET at = excluded.at, sample = excluded.sample, rows = excluded.rows,
				differing = excluded.differing, differences = excluded.differences
			WHERE excluded.sample >= 100 OR excluded.differing > 0 OR verifications.differing = 0)
		SELECT clock_timestamp()`, name, v.Sample, v.Rows, v.Differing, append([]Difference{}, v.Differences...)).
		Scan(&v.At)
	if err != nil {
		return fmt.Errorf("store the result: %w", err)
	}
	return nil
}

// String names the row.
func (d Difference) String() string {
	var text strings.Builder
	text.WriteString(d.Table)
	for _, column := range slices.Sorted(maps.Keys(d.Key)) {
		fmt.Fprintf(&text, " %s=%s", column, d.Key[column])
	}
	text.WriteString(" " + d.Kind)
	for i, column := range d.Columns {
		text.WriteString(map[bool]string{true: ": ", false: ", "}[i == 0] + column)
		if i < len(d.Expected) && i < len(d.Found) {
			text.WriteString(" is " + valueOf(d.Found[i]) + ", expected " + valueOf(d.Expected[i]))
		}
	}
	return text.String()
}

// valueOf returns the text of a value of a column; nil is NULL.
func valueOf(text *string) string {
	if text == nil {
		return "null"
	}
	return strconv.Quote(*text)
}
