package adapters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/collection"
	"carillon/projections"
	"carillon/projections/column"
)

const (
	// alikeAtMost bounds with how many others a happening is compared.
	alikeAtMost = 60
	// likenessKept is how long happenings are found by their dates after they are over.
	likenessKept = 30 * 24 * time.Hour

	insertMarks = `INSERT INTO marks (happening_id, mark, day)
		SELECT id, mark, coalesce(nullif(day, '')::date, 'infinity') FROM unnest($1::uuid[], $2::bigint[], $3::text[]) AS m (id, mark, day)`
	findAlike = `SELECT w.id, o.happening_id FROM unnest($1::uuid[]) AS w (id) CROSS JOIN LATERAL (
		SELECT o.happening_id FROM marks m JOIN marks o ON o.mark = m.mark AND o.happening_id <> m.happening_id WHERE m.happening_id = w.id
		GROUP BY o.happening_id ORDER BY count(*) DESC, o.happening_id LIMIT $2) o`
	upsertComparisons = `INSERT INTO comparisons (a, b, same, reason, score, compared_at)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::boolean[], $4::text[], $5::real[], $6::timestamptz[])
		ON CONFLICT (a, b) DO UPDATE SET same = excluded.same, reason = excluded.reason, score = excluded.score, compared_at = excluded.compared_at`
)

// likeness is collection.Likeness on the tables of the curation.
type likeness struct {
	tables *projections.Tables
	swept  string // the day on which what is over was last forgotten
}

// Note implements collection.Likeness.
func (l *likeness) Note(ctx context.Context, all []collection.Findable, at time.Time) (map[uuid.UUID][]uuid.UUID, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var ids, of column.UUIDs
	var marks []int64
	var days []string
	for _, f := range all {
		ids = append(ids, f.Happening)
		for _, m := range f.Marks {
			of, marks, days = append(of, f.Happening), append(marks, m.Hash), append(days, m.Day)
		}
	}
	today := at.Format(time.DateOnly)
	err := l.tables.Write(ctx, nil, func(tx pgx.Tx) error {
		statements := &pgx.Batch{}
		statements.Queue("DELETE FROM marks WHERE happening_id = ANY($1)", ids)
		statements.Queue(insertMarks, of, marks, days)
		if l.swept != today {
			statements.Queue("DELETE FROM marks WHERE day < $1::date", at.Add(-likenessKept).Format(time.DateOnly))
		}
		return tx.SendBatch(ctx, statements).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("note what happenings are found by: %w", err)
	}
	l.swept = today
	alike := map[uuid.UUID][]uuid.UUID{}
	queries := &pgx.Batch{}
	queries.Queue(findAlike, ids, alikeAtMost).Query(func(rows pgx.Rows) error {
		var id, other uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), column.UUID(&other)}, func() error {
			alike[id] = append(alike[id], other)
			return nil
		})
		return err
	})
	if err := l.tables.Read(ctx, queries); err != nil {
		return nil, fmt.Errorf("find happenings that are alike: %w", err)
	}
	return alike, nil
}

// Compared implements collection.Likeness.
func (l *likeness) Compared(ctx context.Context, all []collection.Comparison) error {
	if len(all) == 0 {
		return nil
	}
	var a, b column.UUIDs
	var same []bool
	var reasons []string
	var scores []float32
	var at []time.Time
	for _, c := range all {
		a, b, same, reasons = append(a, c.A), append(b, c.B), append(same, c.Same), append(reasons, string(c.Reason))
		scores, at = append(scores, float32(c.Score)), append(at, c.At)
	}
	err := l.tables.Write(ctx, nil, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, upsertComparisons, a, b, same, reasons, scores, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("keep comparisons: %w", err)
	}
	return nil
}
