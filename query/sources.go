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
	StartedAt   *time.Time // of the last visit
	CompletedAt *time.Time // of the last walk that went through
	Observed    int        // happenings on show then
	Failures    int        // in a row
	DueAt       *time.Time // nil: attached to no feed, so never by itself
	// Asked counts the pages that the walk under way has asked for, Linked those that it is to ask for as far as it
	// knows; nil where none is under way.
	Asked, Linked *int
}

// SourceNote says why less was found than a source shows.
type SourceNote struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// sources joins what events tell with what is remembered of walks: those by routine that find nothing new are known only
// there.
const sources = `
	SELECT s.id, s.type, s.url, s.handle, s.timezone, s.created_at, s.feeds,
		CASE WHEN w.walking THEN 'collecting' ELSE s.state END, CASE WHEN w.remark <> '' THEN w.remark ELSE s.message END, s.notes,
		greatest(s.started_at, w.attempted_at), greatest(s.completed_at, w.completed_at),
		coalesce(w.observed, s.observed), coalesce(w.failures, s.failures),
		CASE WHEN s.feeds > 0 OR s.requested THEN coalesce(nullif(w.next_at, 'infinity'), s.wanted_at, s.due_at) END,
		CASE WHEN w.walking THEN w.asked END, CASE WHEN w.walking THEN w.linked END
	FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id`

// Sources lists all sources, oldest first.
func (q *Queries) Sources(ctx context.Context) ([]Source, error) {
	rows, err := q.Pool.Query(ctx, sources+" ORDER BY s.created_at, s.id")
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Source])
	if err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	return list, nil
}

