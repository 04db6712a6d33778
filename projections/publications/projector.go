// Package publications is the read model of published events: deliveries show them, backfills scan them.
package publications

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of published events.
var ReadModel = projections.ReadModel{
	Name:    "publications",
	Version: 4, // 3: retirement; 4: places in the log
	Schema:  schema,
	Filter:  eventstore.Categories(publication.Aggregate.Category, retirement.Aggregate.Category),
	Project: project,
}

// row is a published event.
type row struct {
	*eventstore.Recorded
	publication.Published
}

var insertRows = column.Insert("publications",
	column.New[column.UUIDs]("id", "uuid", func(r row) uuid.UUID { return r.StreamID() }),
	column.New[column.NullUUIDs]("organization", "uuid", func(r row) uuid.UUID { return r.Organization }),
	column.New[[]string]("type", "text", func(r row) string { return r.Published.Type }),
	column.New[[]string]("source", "text", func(r row) string { return r.Source }),
	column.New[column.NullTexts]("subject", "text", func(r row) string { return r.Subject }),
	column.New[column.Times]("time", "timestamptz", func(r row) time.Time { return r.Time }),
	column.New[column.NullTexts]("feed_type", "text", func(r row) string { return r.FeedType }),
	column.New[column.NullUUIDs]("feed_id", "uuid", func(r row) uuid.UUID { return r.FeedID }),
	column.New[column.Times]("published_at", "timestamptz", func(r row) time.Time { return r.Created }),
	column.New[[]int64]("changed_sequence", "bigint", func(r row) int64 { return projections.Sequence(r.Recorded) }),
	column.New[[][]byte]("data", "bytea", func(r row) []byte { return r.Published.Data }),
)

// project applies a batch.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	rows := make([]row, 0, len(batch))
	var retired retired
	for i := range batch {
		if batch[i].Category() == retirement.Aggregate.Category {
			if err := retired.apply(&batch[i]); err != nil {
				return err
			}
			continue
		}
		event, err := publication.Events.Decode(&batch[i])
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case publication.Published:
			rows = append(rows, row{&batch[i], e})
		}
	}
	var statements pgx.Batch
	insertRows.Queue(&statements, rows)
	retired.queue(&statements)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write publications: %w", err)
	}
	return nil
}

// retired lists the events that a batch retires. None is published after that.
type retired struct {
	ids      column.UUIDs
	revision eventstore.Revision
	any      bool
}

func (r *retired) apply(recorded *eventstore.Recorded) error {
	event, err := retirement.Events.Decode(recorded)
	if err != nil {
		return err
	}
	switch e := event.(type) {
	case retirement.Retired:
		for _, p := range e.Publications {
			r.ids = append(r.ids, p.ID)
		}
		r.revision, r.any = recorded.Revision, true
	case retirement.HappeningsRetired, retirement.Removed: // no published events
	}
	return nil
}

func (r *retired) queue(statements *pgx.Batch) {
	if !r.any {
		return
	}
	statements.Queue("DELETE FROM publications WHERE id = ANY($1)", r.ids)
	statements.Queue("INSERT INTO retirement (revision) VALUES ($1) ON CONFLICT (singleton) DO UPDATE SET revision = "+
		"excluded.revision", int64(r.revision))
}
