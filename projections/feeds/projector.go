// Package feeds is the read model of feeds, of who may read them, and of the sources that fill them.
package feeds

import (
	_ "embed"

	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

const table = "feeds"

// ReadModel is the read model of feeds, their readers and their sources.
var ReadModel = projections.ReadModel{
	Name:    "feeds",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(feed.Aggregate.Category),
	Project: projections.Statements(feed.Events.Decode, queue),
}

const (
	insertFeed = `INSERT INTO feeds (id, feed_type, organization, name, description, enabled, enabled_source,
		config_version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)`
	switchFeed = `UPDATE feeds SET enabled = $2, enabled_source = $3, enabled_reason = nullif($4, ''), updated_at = $5
		WHERE id = $1`
)

// queue adds an event's statements.
func queue(batch *pgx.Batch, recorded *eventstore.Recorded, event feed.Event) error {
	id := recorded.StreamID()
	switch e := event.(type) {
	case feed.Created:
		batch.Queue(insertFeed, id, feed.TypeEvent, e.Organization, e.Name, e.Description, e.Enabled, feed.BySystem,
			e.Config.Version, e.At)
	case feed.Registered:
		batch.Queue(insertFeed, id, e.FeedType, e.Organization, e.Name, "", true, feed.BySystem, 0, e.At)
	case feed.Revised:
		batch.Queue("UPDATE feeds SET name = $2, description = $3, config_version = $4, updated_at = $5 WHERE id = $1",
			id, e.Name, e.Description, e.Config.Version, e.At)
	case feed.Enabled:
		batch.Queue(switchFeed, id, true, e.By, e.Reason, e.At)
	case feed.Disabled:
		batch.Queue(switchFeed, id, false, e.By, e.Reason, e.At)
	case feed.SourceAttached:
		batch.Queue("INSERT INTO associations (id, feed_id, source_type, source_id, created_at) VALUES ($1, $2, $3, $4, $5)",
			e.AssociationID, id, e.SourceType, e.SourceID, e.At)
	case feed.SourceDetached:
		batch.Queue("DELETE FROM associations WHERE id = $1", e.AssociationID)
	case feed.Shared:
		batch.Queue("INSERT INTO shares (feed_id, organization, created_at) VALUES ($1, $2, $3)", id, e.With, e.At)
	case feed.Unshared:
		batch.Queue("DELETE FROM shares WHERE feed_id = $1 AND organization = $2", id, e.With)
	case feed.Deleted:
		batch.Queue("DELETE FROM associations WHERE feed_id = $1", id)
		batch.Queue("DELETE FROM shares WHERE feed_id = $1", id)
		batch.Queue("DELETE FROM feeds WHERE id = $1", id)
	}
	projections.Changed(batch, table, recorded)
	return nil
}
