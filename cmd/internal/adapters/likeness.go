package adapters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/collect/match"
	"carillon/command/curate"
	"carillon/projections"
	"carillon/projections/column"
)

const (
	// alikeAtMost bounds with how many others a happening is compared.
	alikeAtMost = 60
	// likenessKept is how long happenings are found by their dates after they are over.
	likenessKept = 30 * 24 * time.Hour

	insertMarks = `INSERT INTO marks (happening_id, mark, starts_at, day, kind)
		SELECT id, mark, starts_at, coalesce(nullif(day, '')::date, 'infinity'), kind
		FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[], $4::text[], $5::smallint[]) AS m (id, mark, starts_at, day,
		kind)`
	// The common part of two candidates: a key, or a place or title at the same time, or both of them on one day.
	findAlike = `SELECT w.id, o.happening_id FROM unnest($1::uuid[]) AS w (id) CROSS JOIN LATERAL (
		SELECT o.happening_id FROM (
			SELECT o.happening_id, m.kind, m.kind = 0 OR m.starts_at IS NULL OR o.starts_at IS NULL
				OR o.starts_at BETWEEN m.starts_at - $3::interval AND m.starts_at + $3::interval AS near
			FROM marks m JOIN marks o ON o.mark = m.mark AND o.happening_id <> m.happening_id WHERE m.happening_id = w.id) o
		GROUP BY o.happening_id HAVING bool_or(near) OR min(kind) < max(kind)
		ORDER BY bool_or(near) DESC, count(*) DESC, o.happening_id LIMIT $2) o`
	upsertComparisons = `INSERT INTO comparisons (a, b, same, reason, score, compared_at)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::boolean[], $4::text[], $5::real[], $6::timestamptz[])
		ON CONFLICT (a, b) DO UPDATE SET same = excluded.same, reason = excluded.reason, score = excluded.score,
		compared_at = excluded.compared_at`
)

// likeness is curate.Likeness on the tables of the curation.
type likeness struct {
	tables *projections.Tables
	swept  string // the day on which what is over was last forgotten

	compared []curate.Comparison // yet to be written
}

// Note implements curate.Likeness.
func (l *likeness) Note(
	ctx context.Context, all map[uuid.UUID][]match.Mark, at time.Time,
) (map[uuid.UUID][]uuid.UUID, error) {
	if len(all) == 0 {
		return nil, nil
	}
	var ids, of column.UUIDs
	var marks []int64
	var days []string
	var starts []*time.Time
	var kinds []int16
	for id, its := range all {
		ids = append(ids, id)
		for _, m := range its {
			of, marks, days, kinds = append(of, id), append(marks, m.Hash()), append(days, m.Day),
				append(kinds, int16(m.Kind))
			starts = append(starts, orNil(m.At))
		}
	}
	today := at.Format(time.DateOnly)
	alike := map[uuid.UUID][]uuid.UUID{}
	err := l.tables.Write(ctx, nil, func(tx pgx.Tx) error {
		statements := &pgx.Batch{}
		statements.Queue("DELETE FROM marks WHERE happening_id = ANY($1)", ids)
		statements.Queue(insertMarks, of, marks, starts, days, kinds)
		if l.swept != today {
			statements.Queue("DELETE FROM marks WHERE day < $1::date", at.Add(-likenessKept).Format(time.DateOnly))
		}
		statements.Queue(findAlike, ids, alikeAtMost, match.Together).Query(func(rows pgx.Rows) error {
			var id, other uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), column.UUID(&other)}, func() error {
				alike[id] = append(alike[id], other)
				return nil
			})
			return err
		})
		return tx.SendBatch(ctx, statements).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("find happenings that are alike: %w", err)
	}
	l.swept = today
	return alike, nil
}

// Compared implements curate.Likeness. Its results are written with the next change of the happenings themselves:
// after a crash they are compared again.
func (l *likeness) Compared(_ context.Context, all []curate.Comparison) error {
	l.compared = append(l.compared, all...)
	return nil
}

// queue adds the comparisons that were made to statements, and forgets them.
func (l *likeness) queue(statements *pgx.Batch) {
	if len(l.compared) == 0 {
		return
	}
	var a, b column.UUIDs
	var same []bool
	var reasons []string
	var scores []float32
	var at []time.Time
	for _, c := range l.compared {
		a, b, same, reasons = append(a, c.A), append(b, c.B), append(same, c.Same), append(reasons, string(c.Reason))
		scores, at = append(scores, float32(c.Score)), append(at, c.At)
	}
	l.compared = nil
	statements.Queue(upsertComparisons, a, b, same, reasons, scores, at)
}
