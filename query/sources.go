package query

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Source is a source and the progress of its collection, for operators.
type Source struct {
	ID        uuid.UUID       `json:"id"`
	Type      string          `json:"type"`
	URL       string          `json:"url,omitempty"`
	Handle    string          `json:"handle,omitempty"`
	Timezone  string          `json:"timezone,omitempty"`
	Settings  json.RawMessage `json:"settings,omitempty"` // source.Settings: how its pages are read
	CreatedAt time.Time       `json:"createdAt"`
	Feeds     int             `json:"feeds"` // number of feeds it is attached to
	State     string          `json:"state"` // one of SourceStates
	Since     time.Time       `json:"since"` // of the state
	// Outcome is the result of the last recorded walk: ok, or the stable name of a failure. Empty before the first
	// walk.
	Outcome     string       `json:"-"`
	Message     string       `json:"message,omitempty"` // of the failure
	Notes       []SourceNote `json:"notes,omitempty"`
	Advice      string       `json:"advice,omitempty" db:"-"` // the remedy of Message, or of the first note
	StartedAt   *time.Time   `json:"startedAt"`               // of the last visit, successful or not
	CompletedAt *time.Time   `json:"completedAt"`             // of the last successful walk
	Observed    int          `json:"observed"`                // happenings shown then
	// Pages counts the pages that the walk requested; New, Revised and Stale count happenings.
	Pages    int `json:"pages"`
	New      int `json:"new"`
	Revised  int `json:"revised"`
	Stale    int `json:"stale"`
	Interval int `json:"intervalSeconds"` // between two walks, as adapted to how often it changes
	Failures int `json:"failures"`        // consecutive ones
	// DueAt is nil if the source is paused or not attached to a feed: it is then never due.
	DueAt       *time.Time `json:"dueAt"`
	SourcePause `json:"paused,omitzero"`
	// Requested reports that a walk was requested and has not started.
	Requested      bool `json:"requested"`
	SourceProgress `json:"progress,omitzero"`
	Backfills      []Backfill `json:"backfills,omitempty" db:"-"` // one per feed, in order of attachment
}

// SourcePause is the time since when a source may not be visited. The zero value: it may.
type SourcePause struct {
	PausedFor string     `json:"reason"`
	PausedBy  string     `json:"by"` // an actor
	PausedAt  *time.Time `json:"since"`
}

// SourceProgress counts the pages that the walk in progress has requested, and those that it is to request, these
// included. Pages that are found meanwhile are added. The zero value: no walk is in progress.
type SourceProgress struct {
	Asked  *int `json:"asked"`
	Linked *int `json:"linked"`
}

// Backfill is the set of items that an attachment of a source added to a feed without announcing them as new.
type Backfill struct {
	Source  uuid.UUID `json:"-"`
	Feed    uuid.UUID `json:"feedId"`
	Running bool      `json:"running"`
	Since   time.Time `json:"since"` // of the attachment
	// EndedAt is nil while it runs. The next complete walk through the source ends it.
	EndedAt *time.Time `json:"endedAt"`
	Added   int        `json:"added"` // items
}

const selectBackfill = `
	SELECT source_id, feed_id, ended_at IS NULL, attached_at, ended_at, added FROM sources.attachments `

// SourceNote is a reason why less was found than a source shows.
type SourceNote struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // its remedy, which is not stored
}

// SourceStates returns the states of sources. A paused source is only paused, whatever else it is.
func SourceStates() []string {
	return []string{"registered", "collecting", "ok", "failing", "needs_credentials", "needs_javascript", "paused"}
}

// sourceState is the visible state of a source s with the state w of its walks. A requested walk has not ended before
// its events are read: until then the request is shown as served.
const sourceState = `CASE WHEN s.paused_at IS NOT NULL THEN 'paused'
	WHEN w.walking OR s.wanted_at = w.served_at THEN 'collecting' ELSE s.state END`

// sources joins the events' state with the state of walks: routine walks that find nothing new are known only there.
const sources = `
	SELECT s.id, s.type, s.url, s.handle, s.timezone, nullif(s.settings, '{}'), s.created_at, s.feeds, ` + sourceState + `,
		coalesce(s.paused_at, CASE WHEN w.walking THEN w.began_at WHEN s.state = 'collecting' THEN s.started_at END, s.since),
		s.outcome, CASE WHEN w.remark <> '' THEN w.remark ELSE s.message END, s.notes,
		greatest(s.started_at, w.attempted_at), greatest(s.completed_at, w.completed_at), coalesce(w.observed, s.observed),
		CASE WHEN w.last_tally IS NULL THEN s.pages ELSE coalesce((w.last_tally->>'requests')::integer, 0) END,
		CASE WHEN w.last_tally IS NULL THEN s.new ELSE coalesce((w.last_tally->>'new')::integer, 0) END,
		CASE WHEN w.last_tally IS NULL THEN s.revised ELSE coalesce((w.last_tally->>'revised')::integer, 0) END,
		CASE WHEN w.last_tally IS NULL THEN s.stale ELSE coalesce((w.last_tally->>'wentStale')::integer, 0) END,
		coalesce(w.interval_seconds, s.interval_seconds), coalesce(w.failures, s.failures),
		CASE WHEN s.paused_at IS NULL AND (s.feeds > 0 OR s.requested) THEN coalesce(nullif(w.next_at, 'infinity'),
		s.wanted_at, s.due_at) END,
		s.paused_for, s.paused_by, s.paused_at, s.wanted_at IS NOT NULL AND s.wanted_at IS DISTINCT FROM w.served_at,
		CASE WHEN w.walking THEN w.asked END, CASE WHEN w.walking THEN w.linked END
	FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id`

// SourceFilter selects sources. Zero fields don't restrict.
type SourceFilter struct {
	State string // one of SourceStates
	Type  string
	// Text is a part of the address or the handle, in any case.
	Text string
}

// Sources lists sources, oldest first.
func (q *Queries) Sources(ctx context.Context, f SourceFilter) ([]Source, error) {
	all, err := many(ctx, q.Pool, "sources", pgx.RowToStructByPos[Source], sources+matchesSource+
		" ORDER BY s.created_at, s.id", f.State, f.Type, f.Text)
	if err != nil {
		return nil, err
	}
	backfills, err := many(ctx, q.Pool, "backfills", pgx.RowToStructByPos[Backfill],
		selectBackfill+"ORDER BY attached_at, feed_id")
	of := grouped(backfills, func(b Backfill) uuid.UUID { return b.Source })
	for i := range all {
		all[i].Backfills = of[all[i].ID]
	}
	return all, err
}

// matchesSource is the condition of SourceFilter.
const matchesSource = ` WHERE ($1 = '' OR ` + sourceState + ` = $1) AND ($2 = '' OR s.type = $2)
		AND ($3 = '' OR strpos(lower(s.url), lower($3)) > 0 OR strpos(lower(s.handle), lower($3)) > 0)`

// SourcePage returns a page of the list of sources, without backfills, and the total of all pages.
func (q *Queries) SourcePage(ctx context.Context, f SourceFilter, limit, offset int) ([]Source, int, error) {
	args := []any{f.State, f.Type, f.Text}
	page := statement{sources + matchesSource + " ORDER BY s.created_at, s.id LIMIT $4 OFFSET $5",
		slices.Concat(args, []any{limit, offset})}
	count := statement{"SELECT count(*) FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id" +
		matchesSource, args}
	return counted(ctx, q.Pool, "sources", pgx.RowToStructByPos[Source], page, count)
}

// Source finds a source with its backfills, or returns ErrNotFound.
func (q *Queries) Source(ctx context.Context, id uuid.UUID) (Source, error) {
	found, err := one(ctx, q.Pool, "source", pgx.RowToStructByPos[Source], sources+" WHERE s.id = $1", id)
	if err != nil {
		return Source{}, err
	}
	found.Backfills, err = many(ctx, q.Pool, "backfills", pgx.RowToStructByPos[Backfill],
		selectBackfill+"WHERE source_id = $1 ORDER BY attached_at, feed_id", id)
	return found, err
}

// CountSources counts the sources by state.
func (q *Queries) CountSources(ctx context.Context) (map[string]int, error) {
	return mapped[string, int](ctx, q.Pool, "sources by state", "SELECT "+sourceState+", count(*) FROM sources.sources s "+
		"LEFT JOIN carillon.source_walks w ON w.source_id = s.id GROUP BY 1")
}

// Waiting summarizes the sources that are due and not being visited.
type Waiting struct {
	Longest time.Duration // the longest time that one has been due
	Hosts   int           // of these sources
}

// WaitingSources summarizes the sources that wait for a visit.
func (q *Queries) WaitingSources(ctx context.Context) (Waiting, error) {
	return one(ctx, q.Pool, "sources that wait", pgx.RowToStructByPos[Waiting], `
		SELECT coalesce(clock_timestamp() - min(due_at), interval '0'), count(DISTINCT host) FROM (
			SELECT coalesce(w.next_at, s.wanted_at, s.due_at) AS due_at, coalesce(w.host, s.host) AS host
			FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id
			WHERE (s.feeds > 0 OR s.requested) AND s.paused_at IS NULL AND (w.held_until IS NULL
			OR w.held_until <= clock_timestamp())) d
		WHERE due_at <= clock_timestamp()`)
}

// SourceAt returns the source of a type at an address, the one without a time zone or else the oldest one first;
// uuid.Nil if there is none. An empty time zone means any.
func (q *Queries) SourceAt(ctx context.Context, sourceType, url, timezone string) (id uuid.UUID, err error) {
	id, err = value[uuid.UUID](ctx, q.Pool, "source at an address", `SELECT id FROM sources.sources
		WHERE url = $1 AND type = $2 AND ($3 = '' OR timezone = $3)
		ORDER BY timezone <> '', created_at, id LIMIT 1`, url, sourceType, timezone)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return id, err
}

// SourceIsKnown reports whether the last walk through a source succeeded and the next one is not overdue by more than
// the tolerance of schedules and the time to start. A paused source has no next one. A recorded successful walk
// counts even before its visit has ended, and if the state of walks was lost.
func (q *Queries) SourceIsKnown(ctx context.Context, source uuid.UUID) (known bool, err error) {
	return value[bool](ctx, q.Pool, "last walk of source "+source.String(), `SELECT EXISTS (
		SELECT FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id
		WHERE s.id = $1 AND (s.paused_at IS NOT NULL AND (s.completed_at IS NOT NULL OR w.completed_at IS NOT NULL)
			OR s.completed_at + s.interval_seconds * interval '1.1 seconds' + interval '1 minute' > clock_timestamp()
			OR w.completed_at + w.interval_seconds * interval '1.1 seconds' + interval '1 minute' > clock_timestamp()))`,
		source)
}

// FeedSource is a source of a feed and the progress of its backfill.
type FeedSource struct {
	Association uuid.UUID
	Source      uuid.UUID
	Type        string
	Address     string // URL, or handle of an account
	State       string // one of SourceStates
	AttachedAt  time.Time
	Backfilling bool
	Added       int // items from the backfill
	// Asked counts the pages requested by the walk in progress. nil if none is.
	Asked *int
	// Linked counts the known pages that it has yet to request. nil if none is in progress.
	Linked *int
}

// FeedSources lists the sources of a feed, oldest first, or none if the organization may not read the feed.
func (q *Queries) FeedSources(ctx context.Context, organization, feed uuid.UUID) ([]FeedSource, error) {
	return many(ctx, q.Pool, "sources of a feed", pgx.RowToStructByPos[FeedSource], `
		SELECT a.id, a.source_id, a.source_type, coalesce(nullif(s.url, ''), s.handle, ''), coalesce(`+sourceState+`,
			'registered'), a.created_at,
			coalesce(t.backfilling, true), coalesce(t.added, 0), CASE WHEN w.walking THEN w.asked END,
			CASE WHEN w.walking THEN w.linked END
		FROM feeds.feeds f JOIN feeds.associations a ON a.feed_id = f.id
		LEFT JOIN sources.sources s ON s.id = a.source_id
		LEFT JOIN sources.attachments t ON t.feed_id = f.id AND t.source_id = a.source_id
		LEFT JOIN carillon.source_walks w ON w.source_id = a.source_id
		WHERE f.id = $2 AND f.feed_type = 'event' AND `+readable+` ORDER BY a.created_at, a.id`, organization, feed)
}
