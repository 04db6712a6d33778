package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Source is a source and how its collection goes, for operators.
type Source struct {
	ID          uuid.UUID
	Type        string
	URL         string
	Handle      string
	Timezone    string
	CreatedAt   time.Time
	Feeds       int    // attached to how many
	State       string // registered, collecting, ok, failing, needs_credentials, needs_javascript
	Message     string // what is wrong
	Notes       []SourceNote
	StartedAt   *time.Time // of the last collection
	CompletedAt *time.Time // of the last one that completed
	Observed    int        // happenings on show then
	Failures    int        // in a row
	DueAt       *time.Time // nil: attached to no feed, so never by itself
}

// SourceNote says why less was found than a source shows.
type SourceNote struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// DueSource is a source whose next collection is due.
type DueSource struct {
	ID          uuid.UUID
	Type        string
	URL         string
	Handle      string
	Timezone    string
	Cursor      []byte // JSON, or nil
	Collections int    // started so far
	Collecting  bool   // the last of them has not ended, as far as is known
}

// ShownHappening is a happening as a source shows it.
type ShownHappening struct {
	ID     uuid.UUID
	Digest []byte // see happening.Digest
	Stale  bool   // no longer on show
}

const sourceColumns = `id, type, url, handle, timezone, created_at, feeds, state, message, notes, started_at, completed_at,
	observed, failures, CASE WHEN (feeds > 0 OR requested) AND due_at < 'infinity' THEN due_at END`

// Sources lists all sources, oldest first.
func (q *Queries) Sources(ctx context.Context) ([]Source, error) {
	rows, err := q.Pool.Query(ctx, "SELECT "+sourceColumns+" FROM sources.sources ORDER BY created_at, id")
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Source])
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	return list, nil
}

// DueSources lists sources whose collection is due at a time, the longest due first.
func (q *Queries) DueSources(ctx context.Context, now time.Time, limit int) ([]DueSource, error) {
	rows, err := q.Pool.Query(ctx, `SELECT id, type, url, handle, timezone, cursor, collections, state = 'collecting' FROM sources.sources
		WHERE (feeds > 0 OR requested) AND due_at <= $1 ORDER BY due_at, id LIMIT $2`, now, limit)
	if err != nil {
		return nil, fmt.Errorf("due sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[DueSource])
	if err != nil {
		return nil, fmt.Errorf("due sources: %w", err)
	}
	return list, nil
}

// ShownAt lists what a source shows, and what it did show.
func (q *Queries) ShownAt(ctx context.Context, source uuid.UUID) ([]ShownHappening, error) {
	rows, err := q.Pool.Query(ctx, "SELECT happening_id, digest, stale FROM sources.shown WHERE source_id = $1", source)
	if err != nil {
		return nil, fmt.Errorf("shown at source: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ShownHappening])
	if err != nil {
		return nil, fmt.Errorf("shown at source: %w", err)
	}
	return list, nil
}
