package query

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The readers below run one statement each and name it in errors.

// querier runs statements: the pool, or a transaction on it.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// many returns all rows.
func many[T any](ctx context.Context, from querier, name string, scan pgx.RowToFunc[T], sql string,
	args ...any) ([]T, error) {
	rows, err := from.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	all, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// one returns the first row, or ErrNotFound if there is none.
func one[T any](ctx context.Context, from querier, name string, scan pgx.RowToFunc[T], sql string,
	args ...any) (found T, err error) {
	rows, err := from.Query(ctx, sql, args...)
	if err == nil {
		found, err = pgx.CollectOneRow(rows, scan)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, ErrNotFound
	case err != nil:
		return found, fmt.Errorf("%s: %w", name, err)
	}
	return found, nil
}

// value returns the one column of the first row, or ErrNotFound if there is none.
func value[T any](ctx context.Context, from querier, name, sql string, args ...any) (T, error) {
	return one(ctx, from, name, pgx.RowTo[T], sql, args...)
}

// pair is a row of two columns.
type pair[K comparable, V any] struct {
	Key   K
	Value V
}

// mapped returns rows of two columns, the second by the first.
func mapped[K comparable, V any](ctx context.Context, from querier, name, sql string, args ...any) (map[K]V, error) {
	pairs, err := many(ctx, from, name, pgx.RowToStructByPos[pair[K, V]], sql, args...)
	if err != nil {
		return nil, err
	}
	return keyed(pairs, func(p pair[K, V]) (K, V) { return p.Key, p.Value }), nil
}

// keyed returns the part of each row that is wanted, by a key.
func keyed[R any, K comparable, V any](rows []R, part func(R) (K, V)) map[K]V {
	values := make(map[K]V, len(rows))
	for _, row := range rows {
		key, value := part(row)
		values[key] = value
	}
	return values
}

// statement is SQL with its arguments.
type statement struct {
	sql  string
	args []any
}

// counted returns the rows of a page, and the total of all pages, which a second statement counts.
func counted[T any](ctx context.Context, pool *pgxpool.Pool, name string, scan pgx.RowToFunc[T],
	page, count statement) (rows []T, total int, err error) {
	var batch pgx.Batch
	batch.Queue(page.sql, page.args...).Query(func(found pgx.Rows) (err error) {
		rows, err = pgx.CollectRows(found, scan)
		return err
	})
	batch.Queue(count.sql, count.args...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	return rows, total, nil
}

// grouped returns rows by a key, in their order.
func grouped[K comparable, V any](rows []V, key func(V) K) map[K][]V {
	groups := map[K][]V{}
	for _, row := range rows {
		groups[key(row)] = append(groups[key(row)], row)
	}
	return groups
}

// historyPage bounds the rows of one read of a long list.
const historyPage = 1000

// inPages calls each for all rows of a long list, which next reads page by page: the rows after one, or after the zero
// value. It holds no connection during the calls, and stops at the first error of each and returns it.
func inPages[T any](next func(after T) ([]T, error), each func(T) error) error {
	var last T
	for {
		page, err := next(last)
		if err != nil {
			return err
		}
		for _, last = range page {
			if err := each(last); err != nil {
				return err
			}
		}
		if len(page) < historyPage {
			return nil
		}
	}
}

// Of returns an optional value, or its zero value.
func Of[T any](optional *T) (value T) {
	if optional != nil {
		value = *optional
	}
	return value
}
