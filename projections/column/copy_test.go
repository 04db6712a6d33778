package column_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/column"
	"carillon/projections/pgtest"
)

// value is a row with something of each kind.
type value struct {
	number int
	id     uuid.UUID
	text   string
	at     time.Time
	bytes  []byte
}

var kinds = append([]column.Column[value]{
	column.New[[]int]("number", "integer", func(v value) int { return v.number }),
	column.New[column.UUIDs]("id", "uuid", func(v value) uuid.UUID { return v.id }),
	column.New[[]time.Time]("at", "timestamptz", func(v value) time.Time { return v.at }),
	column.New[[][]byte]("bytes", "bytea", func(v value) []byte { return v.bytes }),
	column.New[[]string]("text", "text", func(v value) string { return v.text }),
	column.New[column.NullInts]("null_number", "integer", func(v value) int { return v.number }),
	column.New[column.NullUUIDs]("null_id", "uuid", func(v value) uuid.UUID { return v.id }),
	column.New[column.Times]("null_at", "timestamptz", func(v value) time.Time { return v.at }),
}, column.Of(func(v value) string {
	return v.text
}, column.New[column.NullTexts]("null_text", "text", func(s string) string { return s }))...)

// TestCopyWritesWhatInsertDoes holds the two ways of writing rows against each other, with values and without.
func TestCopyWritesWhatInsertDoes(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	const columns = "(number integer, id uuid, at timestamptz, bytes bytea, text text, null_number integer, " +
		"null_id uuid, null_at timestamptz, null_text text)"
	for _, table := range []string{"copied", "inserted"} {
		must.Get(pool.Exec(t.Context(), "CREATE TABLE "+table+" "+columns))(t)
	}
	rows := []value{
		{1, uuid.New(), "one", time.Date(2026, 11, 21, 12, 0, 0, 1000, time.UTC), []byte{0, 1, 255}},
		{},
		{-3, uuid.New(), `\N`, time.Date(1912, 1, 2, 3, 4, 5, 0, time.UTC), []byte{}},
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := column.Copy("copied", kinds...).Run(t.Context(), tx, nil); err != nil {
			return err
		}
		if err := column.Copy("copied", kinds...).Run(t.Context(), tx, rows); err != nil {
			return err
		}
		batch := &pgx.Batch{}
		column.Insert("inserted", kinds...).Queue(batch, rows)
		return tx.SendBatch(t.Context(), batch).Close()
	})
	must.OK(t, err)
	dump := func(table string) (text []string) {
		t.Helper()
		rows, err := pool.Query(t.Context(), "SELECT "+table+"::text FROM "+table+" ORDER BY number")
		if err == nil {
			text, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		must.OK(t, err)
		return text
	}
	got := dump("copied")
	assert.Same(t, got, dump("inserted"))
	assert.Equal(t, len(got), len(rows), "rows")
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return column.Copy("nowhere", kinds...).Run(t.Context(), tx, rows)
	})
	assert.True(t, err != nil, "no error for a table that does not exist")
}
