package column

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Copying writes many rows at once by COPY, which takes large values faster than an array does.
type Copying[R any] struct {
	table   string
	names   []string
	columns []Column[R]
}

// Copy adds rows to a table, with unchanged values: expressions of As are ignored.
func Copy[R any](table string, columns ...Column[R]) Copying[R] {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name
	}
	return Copying[R]{table, names, columns}
}

// Run copies the rows, unless there are none.
func (c Copying[R]) Run(ctx context.Context, tx pgx.Tx, rows []R) error {
	if len(rows) == 0 {
		return nil
	}
	gathered, values := make([]any, len(c.columns)), make([]any, len(c.columns))
	for i, column := range c.columns {
		gathered[i] = column.gather(rows)
	}
	// pgx has encoded a row before it asks for the next.
	_, err := tx.CopyFrom(ctx, pgx.Identifier{c.table}, c.names,
		pgx.CopyFromSlice(len(rows), func(row int) ([]any, error) {
			for i, column := range c.columns {
				values[i] = column.at(gathered[i], row)
			}
			return values, nil
		}))
	if err != nil {
		return fmt.Errorf("copy %s: %w", c.table, err)
	}
	return nil
}
