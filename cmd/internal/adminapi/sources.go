package adminapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/sources"
	"carillon/query"
)

func (a *API) sourceRoutes(r chi.Router) {
	r.Post("/admin/sources", wire.Events.Handle(a.addSource))
	r.Get("/admin/sources", wire.Events.Handle(a.listSources))
	r.Post("/admin/sources/{id}/collect", wire.Events.Handle(a.collectSource))
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
	Message     string       `json:"message,omitempty"`
	Notes       []SourceNote `json:"notes,omitempty"`
	StartedAt   *time.Time   `json:"startedAt"`
	CompletedAt *time.Time   `json:"completedAt"`
	Observed    int          `json:"observed"`
	Failures    int          `json:"failures"`
	DueAt       *time.Time   `json:"dueAt"`
	Requested   bool         `json:"requested"`          // somebody asked for a walk that has not begun
	Progress    *Progress    `json:"progress,omitempty"` // of the walk under way
	Backfills   []Backfill   `json:"backfills,omitempty"`
}

// Progress says how far a walk through a source is. Pages that it comes across meanwhile are added.
type Progress struct {
	Asked  int `json:"asked"`  // pages that were asked for
	Linked int `json:"linked"` // pages that are to be asked for, those included
}

// Backfill is what a source brought into a feed that it was attached to, without its being news. While it runs, the next
// whole walk through the source belongs to it.
type Backfill struct {
	FeedID  uuid.UUID  `json:"feedId"`
	Running bool       `json:"running"`
	Since   time.Time  `json:"since"`   // the attachment
	EndedAt *time.Time `json:"endedAt"` // null while it runs
	Added   int        `json:"added"`   // items
}

// SourceNote says why the last collection found less than the source shows.
type SourceNote struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

func sourceOf(s query.Source) Source {
	source := Source{
		ID: s.ID, Type: s.Type, URL: s.URL, Handle: s.Handle, Timezone: s.Timezone, CreatedAt: s.CreatedAt.UTC(), Feeds: s.Feeds,
		State: s.State, Message: s.Message, StartedAt: wire.UTC(s.StartedAt), CompletedAt: wire.UTC(s.CompletedAt),
		Observed: s.Observed, Failures: s.Failures, DueAt: wire.UTC(s.DueAt), Requested: s.Requested,
	}
	if s.Asked != nil && s.Linked != nil {
		source.Progress = &Progress{Asked: *s.Asked, Linked: *s.Linked}
	}
	for _, b := range s.Backfills {
		source.Backfills = append(source.Backfills, Backfill{
			FeedID: b.Feed, Running: b.EndedAt == nil, Since: b.Since.UTC(), EndedAt: wire.UTC(b.EndedAt), Added: b.Added,
		})
	}
	for _, note := range s.Notes {
		source.Notes = append(source.Notes, SourceNote(note))
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
func (a *API) addSource(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[sourceBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	id, at, err := a.Commands.RegisterSource(r.Context(), operator(r), command.RegisterSource{
		Type: body.Type.Value, URL: body.URL.Value, Handle: body.Handle.Value, Timezone: body.Timezone.Value,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, sources.ReadModel.Name)
	return wire.Created(Created{ID: id}), nil
}

// listSources answers GET /admin/sources.
func (a *API) listSources(r *http.Request) (wire.Reply, error) {
	sources, err := a.Queries.Sources(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	list := List[Source]{Items: make([]Source, len(sources))}
	for i, s := range sources {
		list.Items[i] = sourceOf(s)
	}
	return wire.OK(list), nil
}

// collectSource answers POST /admin/sources/{id}/collect.
func (a *API) collectSource(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.CollectSource(r.Context(), operator(r), command.CollectSource{Source: id})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, sources.ReadModel.Name)
	return wire.Accepted(Created{ID: id}), nil
}
