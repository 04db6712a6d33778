package column

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Column is one column of a batch's rows: its name, its type, and where its value comes from in an R.
type Column[R any] struct {
	name, sqlType string
	expression    string // of the value, in SQL; the name alone if nothing is to be done
	gather        func(rows []R) any
	at            func(gathered any, i int) any // one of the values
}

// New declares a column. S is the slice that carries the values: one of this package, or one that pgx knows.
func New[S ~[]V, R, V any](name, sqlType string, value func(R) V) Column[R] {
	return Column[R]{
		name:       name,
		sqlType:    sqlType,
		expression: name,
		gather: func(rows []R) any {
			values := make(S, len(rows))
			for i, r := range rows {
				values[i] = value(r)
			}
			return values
		},
		at: func(gathered any, i int) any {
			if own, ok := gathered.(pgtype.ArrayGetter); ok {
				return own.Index(i)
			}
			values, _ := gathered.(S) // made by gather
			return values[i]
		},
	}
}

// As writes an expression of the values in place of the value.
func (c Column[R]) As(expression string) Column[R] {
	c.expression = expression
	return c
}

// Of declares columns of a part of R.
func Of[R, P any](part func(R) P, columns ...Column[P]) []Column[R] {
	of := make([]Column[R], len(columns))
	for i, c := range columns {
		of[i] = Column[R]{
			name:       c.name,
			sqlType:    c.sqlType,
			expression: c.expression,
			at:         c.at,
			gather: func(rows []R) any {
				parts := make([]P, len(rows))
				for i, r := range rows {
					parts[i] = part(r)
				}
				return c.gather(parts)
			},
		}
	}
	return of
}

// Statement writes many rows at once.
type Statement[R any] struct {
	sql     string
	columns []Column[R]
}

// Queue adds the statement to a batch, unless there are no rows.
func (s Statement[R]) Queue(batch *pgx.Batch, rows []R) {
	if len(rows) == 0 {
		return
	}
	arguments := make([]any, len(s.columns))
	for i, c := range s.columns {
		arguments[i] = c.gather(rows)
	}
	batch.Queue(s.sql, arguments...)
}

// SQL is a statement that reads the values from the table u, which stands in it as %s.
func SQL[R any](sql string, columns ...Column[R]) Statement[R] {
	types := list(columns, func(i int, c Column[R]) string { return fmt.Sprintf("$%d::%s[]", i+1, c.sqlType) })
	return Statement[R]{fmt.Sprintf(sql, "unnest("+types+") AS u ("+list(columns, name)+")"), columns}
}

// Insert adds rows to a table.
func Insert[R any](table string, columns ...Column[R]) Statement[R] {
	expressions := list(columns, func(_ int, c Column[R]) string { return c.expression })
	return SQL("INSERT INTO "+table+" AS t ("+list(columns, name)+") SELECT "+expressions+" FROM %s", columns...)
}

// Upsert adds rows to a table. Of those that are there, by the named key, it changes the columns that are neither of
// the key nor named as constant.
func Upsert[R any](table string, key, constant []string, columns ...Column[R]) Statement[R] {
	changes := list(without(columns, slices.Concat(key, constant)), func(_ int, c Column[R]) string {
		return c.name + " = excluded." + c.name
	})
	return Insert(table, columns...).onConflict(strings.Join(key, ", "), changes)
}

// Add adds rows to a table. To those that are there, by their key, it adds the numbers.
func Add[R any](table string, key []Column[R], numbers ...Column[R]) Statement[R] {
	sums := list(numbers, func(_ int, c Column[R]) string { return c.name + " = t." + c.name + " + excluded." + c.name })
	return Insert(table, slices.Concat(key, numbers)...).onConflict(Names(key...), sums)
}

func (s Statement[R]) onConflict(key, changes string) Statement[R] {
	s.sql += " ON CONFLICT (" + key + ") DO UPDATE SET " + changes
	return s
}

// Update changes the rows of a table that are found by the first column.
func Update[R any](table string, columns ...Column[R]) Statement[R] {
	key := columns[0].name
	changes := list(columns[1:], func(_ int, c Column[R]) string { return c.name + " = u." + c.name })
	return SQL("UPDATE "+table+" AS t SET "+changes+" FROM %s WHERE t."+key+" = u."+key, columns...)
}

func without[R any](columns []Column[R], names []string) []Column[R] {
	return slices.DeleteFunc(slices.Clone(columns), func(c Column[R]) bool { return slices.Contains(names, c.name) })
}

// Names lists the names of columns, as SQL does.
func Names[R any](columns ...Column[R]) string { return list(columns, name) }

func name[R any](_ int, c Column[R]) string { return c.name }

// list writes something of each column, with commas between.
func list[R any](columns []Column[R], text func(int, Column[R]) string) string {
	texts := make([]string, len(columns))
	for i, c := range columns {
		texts[i] = text(i, c)
	}
	return strings.Join(texts, ", ")
}

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
