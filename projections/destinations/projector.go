// Package destinations is the read model of destinations and their secrets, as their organization sees them. Secrets,
// addresses and custom headers stay sealed: authorized callers open them.
package destinations

import (
	"context"
	_ "embed"

	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

const table = "destinations"

// ReadModel is the read model of destinations and their secrets.
var ReadModel = projections.ReadModel{
	Name:    "destinations",
	Version: 2, // 2: deleted ones
	Schema:  schema,
	Filter:  eventstore.Categories(destination.Aggregate.Category),
	Project: project,
}

// project writes a batch.
func project(ctx context.Context, tx pgx.Tx, events []eventstore.Recorded) error {
	write := projections.Statements(destination.Events.Decode,
		func(batch *pgx.Batch, recorded *eventstore.Recorded, event destination.Event) error {
			queue(tx, batch, recorded, event)
			projections.Changed(batch, table, recorded)
			return nil
		})
	return write(ctx, tx, events)
}

const (
	insertDestination = `INSERT INTO destinations (id, organization, external_id, name, shown_url, address, headers,
		settings, status, created_at, updated_at, revision)
		VALUES ($1, $2, nullif($3, ''), $4, $5, $6, $7, $8, 'enabled', $9, $9, $10)`
	reviseDestination = `UPDATE destinations SET external_id = nullif($2, ''), name = $3, shown_url = $4, address = $5,
		headers = $6, settings = $7, updated_at = $8, revision = $9 WHERE id = $1`
	setStatus = `UPDATE destinations SET status = $2, status_reason = nullif($3, ''), updated_at = $4, revision = $5
		WHERE id = $1`
	touch = "UPDATE destinations SET updated_at = $2, revision = $3 WHERE id = $1"
	//nolint:gosec // no credential
	insertSecret = "INSERT INTO secrets (destination, id, sealed, created_at, revision) VALUES ($1, $2, $3, $4, $5)"
	expireSecret = "UPDATE secrets SET expires_at = $3 WHERE destination = $1 AND id = ANY($2)"
)

// queue adds an event's statements, and announces an enabled destination: its waiting deliveries can be claimed. Events
// after a deletion find no row.
func queue(tx pgx.Tx, batch *pgx.Batch, recorded *eventstore.Recorded, event destination.Event) {
	id, revision := recorded.StreamID(), int64(recorded.Revision)
	switch e := event.(type) {
	case destination.Created:
		batch.Queue(insertDestination, id, e.Organization, e.ExternalID, e.Name, e.URL, e.Address.Data, e.Headers.Data,
			e.Plain, e.At, revision)
	case destination.Revised:
		batch.Queue(reviseDestination, id, e.ExternalID, e.Name, e.URL, e.Address.Data, e.Headers.Data,
			e.Plain, e.At, revision)
	case destination.SecretMinted:
		batch.Queue(insertSecret, id, e.SecretID, e.Sealed, e.At, revision)
		batch.Queue(touch, id, e.At, revision)
	case destination.SecretRotated:
		batch.Queue(expireSecret, id, column.UUIDs(e.Expiring), e.ExpiresAt)
		batch.Queue(insertSecret, id, e.SecretID, e.Sealed, e.At, revision)
		batch.Queue(touch, id, e.At, revision)
	case destination.SecretExpired:
		batch.Queue(expireSecret, id, column.UUIDs{e.SecretID}, e.At)
		batch.Queue(touch, id, e.At, revision)
	case destination.Enabled:
		projections.Due(tx, e.At)
		batch.Queue(setStatus, id, destination.StatusEnabled, "", e.At, revision)
	case destination.Disabled:
		batch.Queue(setStatus, id, destination.StatusDisabled, "", e.At, revision)
	case destination.AutoDisabled:
		batch.Queue(setStatus, id, destination.StatusAutoDisabled, e.Reason, e.At, revision)
	case destination.Deleted:
		batch.Queue("DELETE FROM secrets WHERE destination = $1", id)
		batch.Queue(`WITH gone AS (DELETE FROM destinations WHERE id = $1 RETURNING *)
			INSERT INTO deleted SELECT id, organization, external_id, name, $2 FROM gone`, id, e.At)
	}
}
