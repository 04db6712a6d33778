package projections

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// comparison is a table to compare, in quoted names.
type comparison struct {
	name         string
	live, shadow string
	key          []string // the columns of its primary key
	columns      []string // the others
}

// tables lists the tables of the shadow, which nobody has changed by hand.
func (b *rebuild) tables(ctx context.Context) ([]comparison, error) {
	rows, err := b.shadow.pool.Query(ctx, `
		SELECT c.relname::text,
			array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum = ANY(i.indkey) ORDER BY attnum),
			array(SELECT attname::text FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
				AND attnum <> ALL(i.indkey) ORDER BY attnum)
		FROM pg_class c LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
		WHERE c.relnamespace = to_regnamespace($1) AND c.relkind = 'r' ORDER BY c.relname`,
		pgx.Identifier{b.shadow.schema}.Sanitize())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t comparison, err error) {
		if err = row.Scan(&t.name, &t.key, &t.columns); err == nil && len(t.key) == 0 {
			err = fmt.Errorf("%s has no primary key", t.name)
		}
		t.live = pgx.Identifier{b.model.Name, t.name}.Sanitize()
		t.shadow = pgx.Identifier{b.shadow.schema, t.name}.Sanitize()
		t.columns = slices.DeleteFunc(t.columns, func(column string) bool {
			return slices.Contains(b.model.Unverified[t.name], column)
		})
		return t, err
	})
}

// compare adds a table to the result: l is a row that serves, f one that was folded.
func (t *comparison) compare(ctx context.Context, tx pgx.Tx, seed int64, v *Verification) error {
	key := t.each(t.key, "%[1]s")
	sampled := ""
	if v.Sample < 100 {
		sampled = fmt.Sprintf(" WHERE abs(hashtextextended(ROW(%s)::text, %d) %% 10000) < %d", key, seed, int(v.Sample*100))
	}
	var rows int64
	if err := tx.QueryRow(ctx, "SELECT count(*) FROM "+t.shadow+sampled).Scan(&rows); err != nil {
		return err
	}
	v.Rows += rows
	first := pgx.Identifier{t.key[0]}.Sanitize()
	differing, err := tx.Query(ctx, fmt.Sprintf(`
		SELECT count(*) OVER (), key, kind, columns, expected, found FROM (
			SELECT jsonb_build_object(%[1]s) AS key,
				CASE WHEN l.%[2]s IS NULL THEN '%[3]s' WHEN f.%[2]s IS NULL THEN '%[4]s' ELSE '%[5]s' END AS kind,
				array_remove(ARRAY[%[6]s]::text[], NULL) AS columns,
				ARRAY(SELECT value FROM (VALUES %[12]s) v (differs, value) WHERE differs) AS expected,
				ARRAY(SELECT value FROM (VALUES %[13]s) v (differs, value) WHERE differs) AS found
			FROM (SELECT * FROM %[7]s%[9]s) l FULL JOIN (SELECT * FROM %[8]s%[9]s) f USING (%[10]s)) compared
		WHERE kind <> '%[5]s' OR cardinality(columns) > 0
		ORDER BY key LIMIT %[11]d`,
		t.each(t.key, "'%[2]s', %[1]s::text"), first, RowMissing, RowAdded, RowChanged,
		t.each(t.columns, "CASE WHEN l.%[1]s IS DISTINCT FROM f.%[1]s THEN '%[2]s' END"),
		t.live, t.shadow, sampled, key, maxDifferences, t.values("f"), t.values("l")))
	if err != nil {
		return err
	}
	var of int64
	found, err := pgx.CollectRows(differing, func(row pgx.CollectableRow) (Difference, error) {
		d := Difference{Table: t.name}
		err := row.Scan(&of, &d.Key, &d.Kind, &d.Columns, &d.Expected, &d.Found)
		if d.Kind != RowChanged {
			d.Columns, d.Expected, d.Found = nil, nil, nil
		}
		return d, err
	})
	v.Differing += of
	v.Differences = append(v.Differences, found[:min(len(found), maxDifferences-len(v.Differences))]...)
	return err
}

// maxValue is how much of a differing value is shown.
const maxValue = 80

// values lists, for each column, whether it differs, and the beginning of its value in one of the rows. Bytes may be
// sealed, and are shown by their length.
func (t *comparison) values(of string) string {
	if len(t.columns) == 0 {
		return "(false, NULL)"
	}
	return t.each(t.columns, "(l.%[1]s IS DISTINCT FROM f.%[1]s, CASE pg_typeof("+of+".%[1]s)::text WHEN 'bytea' THEN "+
		"length("+of+".%[1]s::text) / 2 - 1 || ' bytes' ELSE left("+of+".%[1]s::text, "+strconv.Itoa(maxValue)+") END)")
}

// each formats columns, as a quoted name and as a bare one, and joins them.
func (t *comparison) each(columns []string, format string) string {
	formatted := make([]string, len(columns))
	for i, column := range columns {
		formatted[i] = fmt.Sprintf(format, pgx.Identifier{column}.Sanitize(), column)
	}
	return strings.Join(formatted, ", ")
}
