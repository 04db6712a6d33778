package items_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"

	"carillon/aggregates/happening"
	"carillon/projections"
	"carillon/projections/items"
	"carillon/query"
)

// typical is an event as a site describes it.
func typical(i int) happening.Details {
	d := on(fmt.Sprintf("Concert %d", i), time.Duration(i%(30*24*60))*time.Minute)
	d.Description = "<p>" + strings.Repeat("An evening of music in the old town hall. ", 12) + "</p>"
	d.ShortDescription = "An evening of music."
	d.Time = happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Rome", DisplayText: "Sat 5 Dec, 20:00"}
	d.Location = &happening.Location{
		Venue:          &happening.Venue{Name: "Town hall", Address: "Market 1"},
		DisplayAddress: "Town hall, Market 1",
	}
	d.Organizer = &happening.Organizer{Name: "Town", URL: "https://example.org/"}
	d.PrimaryImage, d.PrimaryURL = "https://example.org/i.png", "https://example.org/concert"
	d.URLs = []string{"https://example.org/concert"}
	return d
}

// BenchmarkList reads 20 items of a feed with 100,000, and as a measure what one indexed query takes that reads as many
// stored bytes.
func BenchmarkList(b *testing.B) {
	f := open(b)
	f.Project()
	const size = 100_000
	for i := range size {
		f.add(uuid.New(), typical(i))
	}
	f.ProjectInBatches(items.ReadModel, projections.MaxBatch)
	f.vacuum()
	b.Run("items", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			in := usual()
			for pb.Next() {
				in.Since = in.Since.Add(time.Microsecond) // time goes on
				in.Until, in.Now = in.Since.Add(30*day), in.Since
				page, err := f.Items(b.Context(), org, f.feed, in)
				if err != nil || page.Count != 20 || page.Total < size/2 {
					b.Errorf("%d of %d items, %v", page.Count, page.Total, err)
					return
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := f.bare(b); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("count", func(b *testing.B) {
		for b.Loop() {
			fresh := query.Queries{Pool: f.Pool} // remembers no totals
			if _, err := fresh.Items(b.Context(), org, f.feed, usual()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bare reads the stored bytes of 20 items by one indexed query.
func (f fixture) bare(b *testing.B) error {
	rows, err := f.Pool.Query(b.Context(), `SELECT i.current FROM items.occurrences o JOIN items.items i
		ON i.id = o.item_id
		WHERE o.feed_id = $1 AND o.starts_at >= $2 ORDER BY o.starts_at, o.item_id LIMIT 20`, f.feed, now)
	if err != nil {
		return err
	}
	defer rows.Close()
	answer := make([]byte, 0, 1<<16)
	count := 0
	for ; rows.Next(); count++ {
		var body pgtype.DriverBytes
		if err := rows.Scan(&body); err != nil {
			return err
		}
		answer = append(answer, body...)
	}
	if count != 20 || len(answer) == 0 {
		return fmt.Errorf("%d rows", count)
	}
	return rows.Err()
}

func (f fixture) vacuum() {
	f.t.Helper()
	if _, err := f.Pool.Exec(f.t.Context(), "VACUUM ANALYZE items.items, items.occurrences, feeds.feeds"); err != nil {
		f.t.Fatal(err)
	}
}
