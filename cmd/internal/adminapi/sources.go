package adminapi

import (
	"net/http"

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
	r.operators.Put("/admin/sources/{id}/settings",
		handle(wire.With2(pathID, wire.Decode[settingsBody], a.reviseSource)))
	r.operators.Post("/admin/sources/{id}/resume", handle(wire.With(pathID, wire.Empty(a.resumeSource))))
}

// SourceStates counts the sources by state.
type SourceStates struct {
	Total  int            `json:"total"`
	States map[string]int `json:"states"`
}

// Advised adds the advice for a source.
func Advised(s query.Source) query.Source {
	for i := range s.Notes {
		s.Notes[i].Advice = visiting.Advice(s.Notes[i].Code)
	}
	switch {
	case s.State == "paused":
		s.Advice = "\"carillon source resume " + s.ID.String() + "\" ends the pause"
	case s.State == "needs_javascript":
		s.Advice = visiting.Advice(string(collect.NoteNeedsJavaScript))
	case s.Message != "":
		s.Advice = visiting.Advice(s.Outcome)
	case len(s.Notes) > 0:
		s.Advice = s.Notes[0].Advice
	}
	return s
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
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	sources, err := a.Queries.Sources(r.Context(), filter)
	return listed(wire.ListOf(sources, Advised)), err
}

// countSources answers GET /admin/sources/states.
func (a *API) countSources(r *http.Request) (wire.Reply, error) {
	counts, err := a.Queries.CountSources(r.Context())
	states := SourceStates{States: counts}
	for _, n := range counts {
		states.Total += n
	}
	return wire.OK(states), err
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

type settingsBody struct{ source.Settings }

// Check implements wire.Body. The command checks the selectors.
func (*settingsBody) Check(*wire.Checks) {}

// reviseSource answers PUT /admin/sources/{id}/settings.
func (a *API) reviseSource(r *http.Request, id uuid.UUID, body settingsBody) (wire.Reply, error) {
	changed, err := a.Commands.ReviseSource(r.Context(), operator(r), command.ReviseSource{
		Source:   id,
		Settings: body.Settings,
	})
	return a.Changed(r, changed.Position, err, wire.OK(Created{ID: id}), sources.ReadModel.Name)
}

// resumeSource answers POST /admin/sources/{id}/resume.
func (a *API) resumeSource(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.ResumeSource(r.Context(), operator(r), command.ResumeSource{Source: id})
	return a.Changed(r, changed.Position, err, wire.OK(Created{ID: id}), sources.ReadModel.Name)
}
