// Package audit is the read model for auditors: every change of every destination, by whom and why, also after the
// destination is deleted. Secrets appear by their ids only.
package audit

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model for auditors.
var ReadModel = projections.ReadModel{
	Name:    "audit",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(destination.Aggregate.Category),
	Project: project,
}

// Detail is what an entry tells of its event; what the event does not change is left out. A state follows from the
// details alone, whatever the events were called: URL comes with all settings, SecretID is new, Expiring end at ExpiresAt.
type Detail struct {
	ExternalID            string      `json:"externalId,omitempty"`
	Name                  string      `json:"name,omitempty"`
	URL                   string      `json:"url,omitempty"`
	HasHeaders            bool        `json:"hasHeaders,omitzero"` // custom headers are secret
	DebounceWindowSeconds int         `json:"debounceWindowSeconds,omitzero"`
	SecretID              uuid.UUID   `json:"secretId,omitzero"`  // of the secret that begins
	Expiring              []uuid.UUID `json:"expiring,omitempty"` // the secrets that get ExpiresAt
	ExpiresAt             time.Time   `json:"expiresAt,omitzero"`
	StatusReason          string      `json:"statusReason,omitempty"`
	Status                string      `json:"status,omitempty"` // afterwards, where the event changes it
}

// describe takes from an event what may be shown, and when it took effect.
func describe(event destination.Event) (Detail, time.Time, error) {
	switch e := event.(type) {
	case destination.Created:
		return Detail{
			ExternalID: e.ExternalID, Name: e.Name, URL: e.URL, HasHeaders: len(e.Headers.Data) > 0,
			DebounceWindowSeconds: e.DebounceWindowSeconds, Status: string(destination.StatusEnabled),
		}, e.At, nil
	case destination.Revised:
		return Detail{
			ExternalID: e.ExternalID, Name: e.Name, URL: e.URL, HasHeaders: len(e.Headers.Data) > 0,
			DebounceWindowSeconds: e.DebounceWindowSeconds,
		}, e.At, nil
	case destination.SecretMinted:
		return Detail{SecretID: e.SecretID}, e.At, nil
	case destination.SecretRotated:
		return Detail{SecretID: e.SecretID, Expiring: e.Expiring, ExpiresAt: e.ExpiresAt}, e.At, nil
	case destination.SecretExpired:
		return Detail{Expiring: []uuid.UUID{e.SecretID}, ExpiresAt: e.At}, e.At, nil
	case destination.Enabled:
		return Detail{Status: string(destination.StatusEnabled)}, e.At, nil
	case destination.Disabled:
		return Detail{Status: string(destination.StatusDisabled)}, e.At, nil
	case destination.AutoDisabled:
		return Detail{Status: string(destination.StatusAutoDisabled), StatusReason: e.Reason}, e.At, nil
	case destination.Deleted:
		return Detail{Status: "deleted"}, e.At, nil
	}
	return Detail{}, time.Time{}, fmt.Errorf("audit: no description of %T", event)
}

// project applies a batch.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	var (
		destinations, eventID                column.UUIDs
		revision, commit, prepare            []int64
		organization, correlation, causation column.NullUUIDs
		eventType, actor, detail             []string
		at, recordedAt                       column.Times
		reason                               column.NullTexts
	)
	for i := range batch {
		recorded := &batch[i]
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			return err
		}
		described, when, err := describe(event)
		if err != nil {
			return err
		}
		text, err := json.Marshal(described)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		meta, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
		}
		destinations, eventID = append(destinations, recorded.StreamID()), append(eventID, recorded.ID)
		revision = append(revision, int64(recorded.Revision))
		commit, prepare = append(commit, int64(recorded.Position.Commit)), append(prepare, int64(recorded.Position.Prepare)) //nolint:gosec // positions fit an int64
		organization = append(organization, meta.Organization)
		correlation, causation = append(correlation, meta.CorrelationID), append(causation, meta.CausationID)
		eventType, actor, detail = append(eventType, recorded.Type), append(actor, meta.Actor), append(detail, string(text))
		at, recordedAt, reason = append(at, when), append(recordedAt, recorded.Created), append(reason, meta.Reason)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO entries (destination, revision, organization, type, at, recorded_at, event_id, commit_position,
			prepare_position, actor, reason, correlation, causation, detail)
		SELECT destination, revision, organization, type, at, recorded_at, event_id, commit_position,
			prepare_position, actor, reason, correlation, causation, detail::jsonb
		FROM unnest($1::uuid[], $2::bigint[], $3::uuid[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::uuid[], $8::bigint[],
			$9::bigint[], $10::text[], $11::text[], $12::uuid[], $13::uuid[], $14::text[])
		AS u (destination, revision, organization, type, at, recorded_at, event_id, commit_position,
			prepare_position, actor, reason, correlation, causation, detail)`,
		destinations, revision, organization, eventType, at, recordedAt, eventID, commit,
		prepare, actor, reason, correlation, causation, detail)
	if err != nil {
		return fmt.Errorf("write audit entries: %w", err)
	}
	return nil
}
