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
	// Requested: somebody asked for a walk that has not begun.
	Requested bool
	Backfills []Backfill `db:"-"` // one for each feed, in order of attachment
}

// Backfill is what an attachment of a source brought into a feed without its being news.
type Backfill struct {
	Source  uuid.UUID
	Feed    uuid.UUID
	Since   time.Time  // the attachment
	EndedAt *time.Time // nil while it runs: the next whole walk through the source belongs to it
	Added   int        // items
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
		CASE WHEN w.walking THEN w.asked END, CASE WHEN w.walking THEN w.linked END,
		s.wanted_at IS NOT NULL AND s.wanted_at IS DISTINCT FROM w.served_at
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
	rows, err = q.Pool.Query(ctx, "SELECT source_id, feed_id, attached_at, ended_at, added FROM sources.attachments ORDER BY attached_at, feed_id")
	if err != nil {
		return nil, fmt.Errorf("backfills: %w", err)
	}
	backfills, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Backfill])
	if err != nil {
		return nil, fmt.Errorf("backfills: %w", err)
	}
	of := map[uuid.UUID][]Backfill{}
	for _, b := range backfills {
		of[b.Source] = append(of[b.Source], b)
	}
	for i := range list {
		list[i].Backfills = of[list[i].ID]
	}
	return list, nil
}

// SourceIsKnown says that the last walk through a source went through, and that the next one is not overdue: not by more
// than the tolerance of schedules and the time that it takes to begin.
func (q *Queries) SourceIsKnown(ctx context.Context, source uuid.UUID) (known bool, err error) {
	err = q.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM carillon.source_walks WHERE source_id = $1
		AND completed_at + interval_seconds * interval '1.1 seconds' + interval '1 minute' > clock_timestamp())`, source).Scan(&known)
	if err != nil {
		return false, fmt.Errorf("last walk of source %s: %w", source, err)
	}
	return known, nil
}
