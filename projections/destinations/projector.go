// Package destinations is the read model of destinations and their secrets, as their organization sees them. Secrets,
// addresses and custom headers stay sealed: authorized callers open them.
package destinations

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of destinations and their secrets.
var ReadModel = projections.ReadModel{
	Name:    "destinations",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(destination.Aggregate.Category),
	Project: project,
}

// project reads the rows that the batch continues, folds, and writes them back.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	f, err := read(ctx, tx, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		recorded := &batch[i]
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			return err
		}
		f.apply(recorded.StreamID(), int64(recorded.Revision), event)
	}
	if !f.enabled.IsZero() {
		projections.Due(tx, f.enabled)
	}
	return f.write(ctx, tx)
}

// row is a destination.
type row struct {
	organization          uuid.UUID
	externalID            string
	name                  string
	url                   string
	address               []byte
	headers               []byte
	debounceWindowSeconds int
	maxRequestsPerSecond  *float64
	traceparent           bool
	status                destination.Status
	statusReason          string
	createdAt             time.Time
	updatedAt             time.Time
	revision              int64
}

// secretKey names a secret.
type secretKey struct{ destination, id uuid.UUID }

// secret is a signing secret.
type secret struct {
	sealed    []byte
	createdAt time.Time
	expiresAt time.Time
	revision  int64
}

// fold holds the changes of a batch to the rows that it concerns.
type fold struct {
	rows    map[uuid.UUID]*row
	secrets map[secretKey]*secret
	deleted map[uuid.UUID]struct{}
	enabled time.Time // of the latest one: its waiting deliveries can be claimed
}

func (f *fold) apply(id uuid.UUID, revision int64, event destination.Event) {
	if created, ok := event.(destination.Created); ok {
		f.rows[id] = &row{
			organization:          created.Organization,
			externalID:            created.ExternalID,
			name:                  created.Name,
			url:                   created.URL,
			address:               created.Address.Data,
			headers:               created.Headers.Data,
			debounceWindowSeconds: created.DebounceWindowSeconds,
			maxRequestsPerSecond:  limitOf(created.Settings),
			traceparent:           created.Traceparent,
			status:                destination.StatusEnabled,
			createdAt:             created.At,
			updatedAt:             created.At,
			revision:              revision,
		}
		return
	}
	r := f.rows[id]
	if r == nil {
		return // deleted
	}
	r.revision = revision
	switch e := event.(type) {
	case destination.Created: // see above
	case destination.Revised:
		r.externalID, r.name, r.url, r.debounceWindowSeconds = e.ExternalID, e.Name, e.URL, e.DebounceWindowSeconds
		r.address, r.headers = e.Address.Data, e.Headers.Data
		r.maxRequestsPerSecond, r.traceparent = limitOf(e.Settings), e.Traceparent
		r.updatedAt = e.At
	case destination.SecretMinted:
		f.secrets[secretKey{id, e.SecretID}] = &secret{sealed: e.Sealed, createdAt: e.At, revision: revision}
		r.updatedAt = e.At
	case destination.SecretRotated:
		for _, old := range e.Expiring {
			f.expire(secretKey{id, old}, e.ExpiresAt)
		}
		f.secrets[secretKey{id, e.SecretID}] = &secret{sealed: e.Sealed, createdAt: e.At, revision: revision}
		r.updatedAt = e.At
	case destination.SecretExpired:
		f.expire(secretKey{id, e.SecretID}, e.At)
		r.updatedAt = e.At
	case destination.Enabled:
		r.setStatus(destination.StatusEnabled, "", e.At)
		f.enabled = e.At
	case destination.Disabled:
		r.setStatus(destination.StatusDisabled, "", e.At)
	case destination.AutoDisabled:
		r.setStatus(destination.StatusAutoDisabled, e.Reason, e.At)
	case destination.Deleted:
		delete(f.rows, id)
		f.deleted[id] = struct{}{}
	}
}

// limitOf returns the limit of requests per second; nil if there is none.
func limitOf(s destination.Settings) *float64 {
	if s.MaxRequestsPerSecond == 0 {
		return nil
	}
	return &s.MaxRequestsPerSecond
}

func (f *fold) expire(key secretKey, at time.Time) {
	if s := f.secrets[key]; s != nil {
		s.expiresAt = at
	}
}

func (r *row) setStatus(status destination.Status, reason string, at time.Time) {
	r.status, r.statusReason, r.updatedAt = status, reason, at
}

// read begins a fold with the stored rows.
func read(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) (*fold, error) {
	f := &fold{rows: map[uuid.UUID]*row{}, secrets: map[secretKey]*secret{}, deleted: map[uuid.UUID]struct{}{}}
	named := map[uuid.UUID]struct{}{}
	var ids column.UUIDs
	for i := range batch {
		id := batch[i].StreamID()
		if _, twice := named[id]; !twice {
			named[id] = struct{}{}
			ids = append(ids, id)
		}
	}
	var statements pgx.Batch
	statements.Queue(`SELECT id, organization, external_id, name, shown_url, address, headers, debounce_window_seconds,
		max_requests_per_second, traceparent, status, status_reason,
			created_at, updated_at, revision
		FROM destinations WHERE id = ANY($1)`, ids).Query(f.scanRows)
	statements.Queue("SELECT destination, id, sealed, created_at, expires_at, revision FROM secrets "+
		"WHERE destination = ANY($1)", ids).
		Query(f.scanSecrets)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return nil, fmt.Errorf("read destinations: %w", err)
	}
	return f, nil
}

func (f *fold) scanRows(rows pgx.Rows) error {
	var (
		id uuid.UUID
		r  row
	)
	into := []any{column.UUID(&id), column.UUID(&r.organization), column.Text(&r.externalID), &r.name, &r.url, &r.address,
		&r.headers,
		&r.debounceWindowSeconds, &r.maxRequestsPerSecond, &r.traceparent, &r.status, column.Text(&r.statusReason),
		&r.createdAt, &r.updatedAt, &r.revision}
	_, err := pgx.ForEachRow(rows, into, func() error {
		stored := r
		f.rows[id] = &stored
		r.address, r.headers, r.maxRequestsPerSecond = nil, nil, nil
		return nil
	})
	return err
}

func (f *fold) scanSecrets(rows pgx.Rows) error {
	var (
		key secretKey
		s   secret
	)
	_, err := pgx.ForEachRow(rows, []any{column.UUID(&key.destination), column.UUID(&key.id), &s.sealed, &s.createdAt,
		column.Time(&s.expiresAt), &s.revision}, func() error {
		stored := s
		f.secrets[key] = &stored
		s.sealed = nil
		return nil
	})
	return err
}

// write stores the fold.
func (f *fold) write(ctx context.Context, tx pgx.Tx) error {
	var statements pgx.Batch
	if len(f.deleted) > 0 {
		ids := make(column.UUIDs, 0, len(f.deleted))
		for id := range f.deleted {
			ids = append(ids, id)
		}
		statements.Queue("DELETE FROM secrets WHERE destination = ANY($1)", ids)
		statements.Queue("DELETE FROM destinations WHERE id = ANY($1)", ids)
	}
	f.writeRows(&statements)
	f.writeSecrets(&statements)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write destinations: %w", err)
	}
	return nil
}

// stored is a row under its id.
type stored struct {
	id uuid.UUID
	*row
}

var upsertRows = column.Upsert("destinations", []string{"id"}, []string{"organization", "created_at"},
	column.New[column.UUIDs]("id", "uuid", func(s stored) uuid.UUID { return s.id }),
	column.New[column.UUIDs]("organization", "uuid", func(s stored) uuid.UUID { return s.organization }),
	column.New[column.NullTexts]("external_id", "text", func(s stored) string { return s.externalID }),
	column.New[[]string]("name", "text", func(s stored) string { return s.name }),
	column.New[[]string]("shown_url", "text", func(s stored) string { return s.url }),
	column.New[[][]byte]("address", "bytea", func(s stored) []byte { return s.address }),
	column.New[[][]byte]("headers", "bytea", func(s stored) []byte { return s.headers }),
	column.New[[]int]("debounce_window_seconds", "integer", func(s stored) int { return s.debounceWindowSeconds }),
	column.New[[]*float64]("max_requests_per_second", "float8", func(s stored) *float64 { return s.maxRequestsPerSecond }),
	column.New[[]bool]("traceparent", "boolean", func(s stored) bool { return s.traceparent }),
	column.New[[]string]("status", "text", func(s stored) string { return string(s.status) }),
	column.New[column.NullTexts]("status_reason", "text", func(s stored) string { return s.statusReason }),
	column.New[column.Times]("created_at", "timestamptz", func(s stored) time.Time { return s.createdAt }),
	column.New[column.Times]("updated_at", "timestamptz", func(s stored) time.Time { return s.updatedAt }),
	column.New[[]int64]("revision", "bigint", func(s stored) int64 { return s.revision }),
)

func (f *fold) writeRows(statements *pgx.Batch) {
	rows := make([]stored, 0, len(f.rows))
	for id, r := range f.rows {
		rows = append(rows, stored{id, r})
	}
	upsertRows.Queue(statements, rows)
}

// storedSecret is a secret under its key.
type storedSecret struct {
	secretKey
	*secret
}

var upsertSecrets = column.Upsert("secrets", []string{"destination", "id"},
	[]string{"sealed", "created_at", "revision"},
	column.New[column.UUIDs]("destination", "uuid", func(s storedSecret) uuid.UUID { return s.destination }),
	column.New[column.UUIDs]("id", "uuid", func(s storedSecret) uuid.UUID { return s.id }),
	column.New[[][]byte]("sealed", "bytea", func(s storedSecret) []byte { return s.sealed }),
	column.New[column.Times]("created_at", "timestamptz", func(s storedSecret) time.Time { return s.createdAt }),
	column.New[column.Times]("expires_at", "timestamptz", func(s storedSecret) time.Time { return s.expiresAt }),
	column.New[[]int64]("revision", "bigint", func(s storedSecret) int64 { return s.revision }),
)

func (f *fold) writeSecrets(statements *pgx.Batch) {
	rows := make([]storedSecret, 0, len(f.secrets))
	for key, s := range f.secrets {
		if f.rows[key.destination] != nil { // else it is deleted
			rows = append(rows, storedSecret{key, s})
		}
	}
	upsertSecrets.Queue(statements, rows)
}
