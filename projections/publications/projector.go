// Package publications is the read model of what was published: deliveries show it, backfills scan it.
package publications

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of what was published.
var ReadModel = projections.ReadModel{
	Name:    "publications",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(publication.Aggregate.Category),
	Project: project,
}

// project applies a batch.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	var (
		id                   = make(column.UUIDs, 0, len(batch))
		organization, feedID = make(column.NullUUIDs, 0, len(batch)), make(column.NullUUIDs, 0, len(batch))
		eventType, source    = make([]string, 0, len(batch)), make([]string, 0, len(batch))
		subject, feedType    = make(column.NullTexts, 0, len(batch)), make(column.NullTexts, 0, len(batch))
		at, publishedAt      = make(column.Times, 0, len(batch)), make(column.Times, 0, len(batch))
		data                 = make([][]byte, 0, len(batch))
	)
	for i := range batch {
		recorded := &batch[i]
		event, err := publication.Events.Decode(recorded)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case publication.Published:
			id, organization = append(id, recorded.StreamID()), append(organization, e.Organization)
			eventType, source, subject = append(eventType, e.Type), append(source, e.Source), append(subject, e.Subject)
			at, publishedAt = append(at, e.Time), append(publishedAt, recorded.Created)
			feedType, feedID = append(feedType, e.FeedType), append(feedID, e.FeedID)
			data = append(data, e.Data)
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO publications (id, organization, type, source, subject, time, feed_type, feed_id, published_at, data)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::uuid[],
			$9::timestamptz[], $10::bytea[])`,
		id, organization, eventType, source, subject, at, feedType, feedID, publishedAt, data)
	if err != nil {
		return fmt.Errorf("write publications: %w", err)
	}
	return nil
}
