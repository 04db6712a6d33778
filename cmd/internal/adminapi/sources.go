package adminapi

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/projections/sources"
	"carillon/query"
)

func (a *API) sourceRoutes(r routes) {
	r.operators.Post("/admin/sources", handle(wire.With(wire.Decode[sourceBody], a.addSource)))
	r.operators.Get("/admin/sources", handle(a.listSources))
	r.operators.Get("/admin/sources/states", handle(wire.NoQuery(a.countSources)))
	r.operators.Post("/admin/sources/{id}/collect", handle(wire.With(pathID, wire.Empty(a.collectSource))))
	r.operators.Post("/admin/sources/{id}/pause", handle(wire.With2(pathID, wire.Decode[pauseBody], a.pauseSource)))
	r.operators.Post("/admin/sources/{id}/resume", handle(wire.With(pathID, wire.Empty(a.resumeSource))))
}

// Source is a source and the state of its collection.
type Source struct {
	ID          uuid.UUID    `json:"id"`
	Type        string       `json:"type"`
	URL         string       `json:"url,omitempty"`
	Handle      string       `json:"handle,omitempty"`
	Timezone    string       `json:"timezone,omitempty"`
	CreatedAt   time.Time    `json:"createdAt"`
	Feeds       int          `json:"feeds"`
	State       string       `json:"state"`
	Since       time.Time    `json:"since"`             // the state
	Message     string       `json:"message,omitempty"` // the problem
	Notes       []SourceNote `json:"notes,omitempty"`
	Advice      string       `json:"advice,omitempty"` // the remedy of message, or of the first note
	StartedAt   *time.Time   `json:"startedAt"`        // the last attempt
	CompletedAt *time.Time   `json:"completedAt"`      // the last success
	Observed    int          `json:"observed"`         // events on show then
	// that it asked for, and events that it found to be new, revised and gone
	Pages     int          `json:"pages"`
	New       int          `json:"new"`
	Revised   int          `json:"revised"`
	Stale     int          `json:"stale"`
	Interval  int          `json:"intervalSeconds"` // between two walks, as adapted to how often it changes
	Failures  int          `json:"failures"`        // in a row
	DueAt     *time.Time   `json:"dueAt"`           // the next walk; null: none by itself
	Paused    *SourcePause `json:"paused,omitempty"`
	Requested bool         `json:"requested"`          // a requested walk has not begun
	Progress  *Progress    `json:"progress,omitempty"` // of the walk in progress
	Backfills []Backfill   `json:"backfills,omitempty"`
}

// SourcePause is the pause of a source with its reason.
type SourcePause struct {
	Reason string    `json:"reason"`
	By     string    `json:"by"`
	Since  time.Time `json:"since"`
}

// SourceStates counts the sources by state.
type SourceStates struct {
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
}

// Progress is the progress of a walk through a source. Pages found meanwhile are added.
type Progress struct {
	Asked  int `json:"asked"`  // pages that were asked for
	Linked int `json:"linked"` // pages that are to be asked for, those included
}

// Backfill is the set of items that a source brought into a feed when it was attached, without being news. While it
// runs, the next whole walk through the source belongs to it.
type Backfill struct {
	FeedID  uuid.UUID  `json:"feedId"`
	Running bool       `json:"running"`
	Since   time.Time  `json:"since"`   // the attachment
	EndedAt *time.Time `json:"endedAt"` // null while it runs
	Added   int        `json:"added"`   // items
}

// SourceNote is a reason why the last collection found less than the source shows.
type SourceNote struct {
	Code   string `json:"code"`
	Text   string `json:"text"`
	Advice string `json:"advice,omitempty"` // its remedy
}

// SourceOf is a source with the advice for it.
func SourceOf(s query.Source) Source {
	source := Source{
		ID:          s.ID,
		Type:        s.Type,
		URL:         s.URL,
		Handle:      s.Handle,
		Timezone:    s.Timezone,
		CreatedAt:   s.CreatedAt,
		Feeds:       s.Feeds,
		State:       s.State,
		Since:       s.Since,
		Message:     s.Message,
		StartedAt:   s.StartedAt,
		CompletedAt: s.CompletedAt,
		Observed:    s.Observed,
		Pages:       s.Pages,
		New:         s.New,
		Revised:     s.Revised,
		Stale:       s.Stale,
		Interval:    s.Interval,
		Failures:    s.Failures,
		DueAt:       s.DueAt,
		Requested:   s.Requested,
	}
	if s.PausedAt != nil {
		source.Paused = &SourcePause{Reason: s.PausedFor, By: s.PausedBy, Since: *s.PausedAt}
	}
	if s.Asked != nil && s.Linked != nil {
		source.Progress = &Progress{Asked: *s.Asked, Linked: *s.Linked}
	}
	for _, b := range s.Backfills {
		source.Backfills = append(source.Backfills, Backfill{
			FeedID:  b.Feed,
			Running: b.EndedAt == nil,
			Since:   b.Since,
			EndedAt: b.EndedAt,
			Added:   b.Added,
		})
	}
	for _, note := range s.Notes {
		source.Notes = append(source.Notes, SourceNote{
			Code:   note.Code,
			Text:   note.Text,
			Advice: visiting.Advice(note.Code),
		})
	}
	switch {
	case s.State == "paused":
		source.Advice = "\"carillon source resume " + s.ID.String() + "\" ends the pause"
	case s.State == "needs_javascript":
		source.Advice = visiting.Advice(string(collect.NoteNeedsJavaScript))
	case s.Message != "":
		source.Advice = visiting.Advice(s.Outcome)
	case len(source.Notes) > 0:
		source.Advice = source.Notes[0].Advice
	}
	return source
}

type sourceBody struct {
	Type     wire.Optional[string] `json:"type"`
	URL      wire.Optional[string] `json:"url"`
	Handle   wire.Optional[string] `json:"handle"`
	Timezone wire.Optional[string] `json:"timezone"`
}

// Check implements wire.Body. The command checks what the type needs.
func (b *sourceBody) Check(c *wire.Checks) {
	if c.Require("type", b.Type.Set) {
		c.OneOf("type", b.Type.Value, source.Types()...)
	}
}

// addSource answers POST /admin/sources.
func (a *API) addSource(r *http.Request, body sourceBody) (wire.Reply, error) {
	made, err := a.Commands.RegisterSource(r.Context(), operator(r), command.RegisterSource{
		Type:     body.Type.Value,
		URL:      body.URL.Value,
		Handle:   body.Handle.Value,
		Timezone: body.Timezone.Value,
	})
	return a.Changed(r, made.Position, err, wire.Created(Created{ID: made.ID}), sources.ReadModel.Name)
}

// listSources answers GET /admin/sources.
func (a *API) listSources(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "state", "type", "q")
	filter := query.SourceFilter{
		State: q.OneOf("state", query.SourceStates()...),
		Type:  q.OneOf("type", source.Types()...),
		Text:  q.Text("q"),
	}
	if strings.ContainsRune(filter.Text, 0) || !utf8.ValidString(filter.Text) {
		q.Fail("q", "must be a part of an address or a handle, as valid UTF-8 without NUL characters")
	}
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	sources, err := a.Queries.Sources(r.Context(), filter)
	if err != nil {
		return wire.Reply{}, err
	}
	return listed(sources, SourceOf), nil
}

// countSources answers GET /admin/sources/states.
func (a *API) countSources(r *http.Request) (wire.Reply, error) {
	counts, err := a.Queries.CountSources(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	states := SourceStates{States: counts}
	for _, n := range counts {
		states.Total += n
	}
	return wire.OK(states), nil
}

// collectSource answers POST /admin/sources/{id}/collect.
func (a *API) collectSource(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.CollectSource(r.Context(), operator(r), command.CollectSource{Source: id})
	return a.Changed(r, changed.Position, err, wire.Accepted(Created{ID: id}), sources.ReadModel.Name)
}

type pauseBody struct {
	Reason wire.Optional[string] `json:"reason"`
}

// Check implements wire.Body.
func (b *pauseBody) Check(c *wire.Checks) { c.Require("reason", b.Reason.Set) }

// pauseSource answers POST /admin/sources/{id}/pause.
func (a *API) pauseSource(r *http.Request, id uuid.UUID, body pauseBody) (wire.Reply, error) {
	changed, err := a.Commands.PauseSource(r.Context(), operator(r), command.PauseSource{
		Source: id,
		Reason: body.Reason.Value,
	})
	return a.Changed(r, changed.Position, err, wire.OK(Created{ID: id}), sources.ReadModel.Name)
}

// resumeSource answers POST /admin/sources/{id}/resume.
func (a *API) resumeSource(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.ResumeSource(r.Context(), operator(r), command.ResumeSource{Source: id})
	return a.Changed(r, changed.Position, err, wire.OK(Created{ID: id}), sources.ReadModel.Name)
}
