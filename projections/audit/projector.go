// Package audit is the read model for auditors: every change of every destination, by whom and why, and to whom its
// secrets were shown in full, also after the destination is deleted. Secrets appear by their ids only, and addresses
// without what is secret of them.
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
	"carillon/aggregates/disclosure"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model for auditors.
var ReadModel = projections.ReadModel{
	Name:    "audit",
	Version: 3, // 2: what is secret of an address is left out; 3: what was shown in full
	Schema:  schema,
	Filter:  eventstore.Categories(destination.Aggregate.Category, disclosure.Aggregate.Category),
	Project: project,
}

// Detail is what an entry tells of its event; what the event does not change is left out. A state follows from the
// details alone, whatever the events were called: URL comes with all settings, SecretID is new, Expiring end at
// ExpiresAt.
type Detail struct {
	ExternalID            string      `json:"externalId,omitempty"`
	Name                  string      `json:"name,omitempty"`
	URL                   string      `json:"url,omitempty"`       // what everybody may see of it; with it come all settings
	HasHeaders            bool        `json:"hasHeaders,omitzero"` // custom headers are secret
	DebounceWindowSeconds int         `json:"debounceWindowSeconds,omitzero"`
	SecretID              uuid.UUID   `json:"secretId,omitzero"`  // of the secret that begins
	Expiring              []uuid.UUID `json:"expiring,omitempty"` // the secrets that get ExpiresAt
	ExpiresAt             time.Time   `json:"expiresAt,omitzero"`
	Status                string      `json:"status,omitempty"` // afterwards, where the event changes it
	StatusReason          string      `json:"statusReason,omitempty"`
	Shown                 []string    `json:"shown,omitempty"` // in full to the actor, of a disclosure
}

// describe takes from an event what may be shown, and when it took effect.
func describe(event destination.Event) (Detail, time.Time, error) {
	switch e := event.(type) {
	case destination.Created:
		detail := describeSettings(e.Settings)
		detail.Status = string(destination.StatusEnabled)
		return detail, e.At, nil
	case destination.Revised:
		return describeSettings(e.Settings), e.At, nil
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

func describeSettings(s destination.Settings) Detail {
	if s.Exposed() { // recorded before addresses were sealed
		s.URL = destination.Masked(s.URL, nil)
	}
	return Detail{
		ExternalID: s.ExternalID, Name: s.Name, URL: s.URL, HasHeaders: len(s.Headers.Data) > 0,
		DebounceWindowSeconds: s.DebounceWindowSeconds,
	}
}

// entry is one change of a destination, or one disclosure.
type entry struct {
	*eventstore.Recorded
	eventstore.Metadata

	destination uuid.UUID
	at          time.Time
	detail      string // JSON
}

var insertEntries, insertDisclosures = insert("entries"), insert("disclosures")

func insert(table string) column.Statement[entry] {
	return column.Insert(table,
		column.New[column.UUIDs]("destination", "uuid", func(e entry) uuid.UUID { return e.destination }),
		column.New[[]int64]("revision", "bigint", func(e entry) int64 { return int64(e.Revision) }),
		column.New[column.NullUUIDs]("organization", "uuid", func(e entry) uuid.UUID { return e.Organization }),
		column.New[[]string]("type", "text", func(e entry) string { return e.Type }),
		column.New[column.Times]("at", "timestamptz", func(e entry) time.Time { return e.at }),
		column.New[column.Times]("recorded_at", "timestamptz", func(e entry) time.Time { return e.Created }),
		column.New[column.UUIDs]("event_id", "uuid", func(e entry) uuid.UUID { return e.ID }),
		column.New[[]int64]("commit_position", "bigint", func(e entry) int64 { return int64(e.Position.Commit) }),   //nolint:gosec // positions fit an int64
		column.New[[]int64]("prepare_position", "bigint", func(e entry) int64 { return int64(e.Position.Prepare) }), //nolint:gosec // positions fit an int64
		column.New[[]string]("actor", "text", func(e entry) string { return e.Actor }),
		column.New[column.NullTexts]("reason", "text", func(e entry) string { return e.Reason }),
		column.New[column.NullUUIDs]("correlation", "uuid", func(e entry) uuid.UUID { return e.CorrelationID }),
		column.New[column.NullUUIDs]("causation", "uuid", func(e entry) uuid.UUID { return e.CausationID }),
		column.New[[]string]("detail", "text", func(e entry) string { return e.detail }).As("detail::jsonb"),
	)
}

// project adds an entry for each event.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	entries, disclosures := make([]entry, 0, len(batch)), []entry{}
	for i := range batch {
		recorded := &batch[i]
		meta, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
		}
		if recorded.Category() == disclosure.Aggregate.Category {
			e, err := disclosed(recorded, meta)
			if err != nil {
				return err
			}
			disclosures = append(disclosures, e)
			continue
		}
		e, err := changed(recorded, meta)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	var statements pgx.Batch
	insertEntries.Queue(&statements, entries)
	insertDisclosures.Queue(&statements, disclosures)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write audit entries: %w", err)
	}
	return nil
}

// changed is the entry of a change.
func changed(recorded *eventstore.Recorded, meta eventstore.Metadata) (entry, error) {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return entry{}, err
	}
	described, when, err := describe(event)
	if err != nil {
		return entry{}, err
	}
	return newEntry(recorded, meta, recorded.StreamID(), when, described)
}

// disclosed is the entry of a disclosure.
func disclosed(recorded *eventstore.Recorded, meta eventstore.Metadata) (entry, error) {
	event, err := disclosure.Events.Decode(recorded)
	if err != nil {
		return entry{}, err
	}
	switch e := event.(type) {
	case disclosure.Shown:
		shown := make([]string, len(e.What))
		for i, what := range e.What {
			shown[i] = string(what)
		}
		return newEntry(recorded, meta, e.Destination, e.At, Detail{Shown: shown})
	}
	return entry{}, fmt.Errorf("audit: no description of %T", event)
}

func newEntry(recorded *eventstore.Recorded, meta eventstore.Metadata, destination uuid.UUID, at time.Time, d Detail) (entry, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return entry{}, fmt.Errorf("audit: %w", err)
	}
	return entry{recorded, meta, destination, at, string(text)}, nil
}
