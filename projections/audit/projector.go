// Package audit is the read model for auditors: every change of everything that people change, by whom and why, and to
// whom the secrets of a destination were shown in full, also after the deletion of a thing. Secrets appear by their ids
// only, and addresses without what is secret of them.
package audit

import (
	"context"
	_ "embed"
	"encoding/hex"
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
	"carillon/query"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model for auditors.
var ReadModel = projections.ReadModel{
	Name: "audit",
	// 2: without the secrets of addresses; 3: with the addresses shown in full; 4: with the names of headers;
	// 5: with everything else that people change; 6: with an index of streams; 7: by secrets
	Version: 7,
	Schema:  schema,
	Filter:  eventstore.Categories(categories...),
	Project: project,
}

// describe takes from an event what may be shown, and when it took effect.
func describe(event destination.Event) (query.AuditDetail, time.Time, error) {
	switch e := event.(type) {
	case destination.Created:
		detail := describeSettings(e.Settings)
		detail.Status = string(destination.StatusEnabled)
		return detail, e.At, nil
	case destination.Revised:
		return describeSettings(e.Settings), e.At, nil
	case destination.SecretMinted:
		return query.AuditDetail{SecretID: e.SecretID}, e.At, nil
	case destination.SecretRotated:
		return query.AuditDetail{SecretID: e.SecretID, Expiring: e.Expiring, ExpiresAt: e.ExpiresAt}, e.At, nil
	case destination.SecretExpired:
		return query.AuditDetail{Expiring: []uuid.UUID{e.SecretID}, ExpiresAt: e.At}, e.At, nil
	case destination.Enabled:
		return query.AuditDetail{Status: string(destination.StatusEnabled)}, e.At, nil
	case destination.Disabled:
		return query.AuditDetail{Status: string(destination.StatusDisabled)}, e.At, nil
	case destination.AutoDisabled:
		return query.AuditDetail{Status: string(destination.StatusAutoDisabled), StatusReason: e.Reason}, e.At, nil
	case destination.Deleted:
		return query.AuditDetail{Status: "deleted"}, e.At, nil
	}
	return query.AuditDetail{}, time.Time{}, fmt.Errorf("audit: no description of %T", event)
}

func describeSettings(s destination.Settings) query.AuditDetail {
	if s.Exposed() { // recorded before addresses were sealed
		s.URL = destination.Masked(s.URL, nil)
	}
	headers := make(map[string]string, len(s.Headers.Parts))
	for _, part := range s.Headers.Parts {
		headers[part.Name] = hex.EncodeToString(part.Digest)
	}
	return query.AuditDetail{
		ExternalID: s.ExternalID,
		Name:       s.Name,
		URL:        s.URL,
		HasHeaders: len(s.Headers.Data) > 0,
		Headers:    headers,
		Plain:      s.Plain,
	}
}

// settingsOf is the reverse of describeSettings, without what is sealed.
func settingsOf(d query.AuditDetail) destination.Settings {
	return destination.Settings{
		ExternalID: d.ExternalID,
		Name:       d.Name,
		URL:        d.URL,
		Plain:      d.Plain,
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
	return column.Insert(table, append(entryColumns(func(e entry) *entry { return &e }),
		column.New[column.UUIDs]("destination", "uuid", func(e entry) uuid.UUID { return e.destination }))...)
}

// entryColumns are the columns that all tables of the audit trail have, of rows that hold an entry.
func entryColumns[R any](of func(R) *entry) []column.Column[R] {
	return []column.Column[R]{
		column.New[[]int64]("revision", "bigint", func(r R) int64 { return int64(of(r).Revision) }),
		column.New[column.NullUUIDs]("organization", "uuid", func(r R) uuid.UUID { return of(r).Organization }),
		column.New[[]string]("type", "text", func(r R) string { return of(r).Type }),
		column.New[column.Times]("at", "timestamptz", func(r R) time.Time { return of(r).at }),
		column.New[column.Times]("recorded_at", "timestamptz", func(r R) time.Time { return of(r).Created }),
		column.New[column.UUIDs]("event_id", "uuid", func(r R) uuid.UUID { return of(r).ID }),
		column.New[[]int64]("commit_position", "bigint", func(r R) int64 {
			return int64(of(r).Position.Commit) //nolint:gosec // positions fit an int64
		}),
		column.New[[]int64]("prepare_position", "bigint", func(r R) int64 {
			return int64(of(r).Position.Prepare) //nolint:gosec // positions fit an int64
		}),
		column.New[[]string]("actor", "text", func(r R) string { return of(r).Actor }),
		column.New[column.NullTexts]("reason", "text", func(r R) string { return of(r).Reason }),
		column.New[column.NullUUIDs]("correlation", "uuid", func(r R) uuid.UUID { return of(r).CorrelationID }),
		column.New[column.NullUUIDs]("causation", "uuid", func(r R) uuid.UUID { return of(r).CausationID }),
		column.New[[]string]("detail", "text", func(r R) string { return of(r).detail }).As("detail::jsonb"),
	}
}

// project adds an entry for each event.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	known, err := owners(ctx, tx, batch)
	if err != nil {
		return err
	}
	d := decoded{record: make([]thingEntry, 0, 2*len(batch))}
	for i := range batch {
		if err := d.add(&batch[i], known); err != nil {
			return err
		}
	}
	var statements pgx.Batch
	insertEntries.Queue(&statements, d.entries)
	insertDisclosures.Queue(&statements, d.disclosures)
	insertThings.Queue(&statements, d.record)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write audit entries: %w", err)
	}
	return nil
}

// decoded are the rows of some events.
type decoded struct {
	entries, disclosures []entry
	record               []thingEntry
}

// add decodes an event.
func (d *decoded) add(recorded *eventstore.Recorded, known map[string]owner) error {
	meta, err := eventstore.ParseMetadata(recorded.Metadata)
	if err != nil {
		return fmt.Errorf("%w: %s@%d: %w", eventstore.ErrUndecodable, recorded.Stream, recorded.Revision, err)
	}
	rows, err := rowsOf(recorded, meta, known)
	if err != nil {
		return err
	}
	var e entry
	switch recorded.Category() {
	case disclosure.Aggregate.Category:
		e, err = disclosed(recorded, meta)
		d.disclosures = append(d.disclosures, e)
	case destination.Aggregate.Category:
		e, err = changed(recorded, meta)
		d.entries = append(d.entries, e)
	}
	if err != nil {
		return err
	}
	for i := range rows {
		if e.Recorded != nil { // of a destination: without what is secret of its address
			rows[i].detail, rows[i].at = e.detail, e.at
		}
	}
	d.record = append(d.record, rows...)
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
		return newEntry(recorded, meta, e.Destination, e.At, query.AuditDetail{Shown: shown, ShownSecrets: e.Secrets})
	}
	return entry{}, fmt.Errorf("audit: no description of %T", event)
}

func newEntry(
	recorded *eventstore.Recorded, meta eventstore.Metadata, destination uuid.UUID, at time.Time, detail any,
) (entry, error) {
	text, err := json.Marshal(detail, json.Deterministic(true))
	if err != nil {
		return entry{}, fmt.Errorf("audit: %w", err)
	}
	return entry{recorded, meta, destination, at, string(text)}, nil
}
