package console

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/source"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/sources"
	"carillon/query"
)

func (c *Console) sourceRoutes(r chi.Router) {
	r.Get("/sources", c.page(c.listSources))
	r.Get("/sources/try", c.page(c.showTry))
	r.Post("/sources/try", form(c, c.readTypedTrial, c.try))
	r.Get("/sources/new", c.page(c.showNewSource))
	r.Post("/sources/new", form(c, c.readTypedTrial, c.addSource))
	r.Get("/sources/{id}", c.page(c.showSource))
	r.Get("/sources/{id}/{change:collect|pause|resume}", c.page(c.confirmSource))
	r.Post("/sources/{id}/collect", c.act(c.collect))
	r.Post("/sources/{id}/pause", c.act(c.pause))
	r.Post("/sources/{id}/resume", c.act(c.resume))
}

// sourceList is a page of the list of sources.
type sourceList struct {
	Sources []query.Source
	Counts  []stateCount
	Types   []string
	Filter  query.SourceFilter
	Paging  paging
	Now     time.Time
}

// stateCount is the number of sources in a state, and the address of their list.
type stateCount struct {
	State   string
	Count   int
	Link    string
	Current bool
}

// listSources answers GET /console/sources.
func (c *Console) listSources(v *visit) (screen, error) {
	values := v.URL.Query()
	list := sourceList{
		Types:  source.Types(),
		Paging: pagingOf(v.URL),
		Now:    c.Now().UTC(),
		Filter: query.SourceFilter{
			State: values.Get("state"),
			Type:  values.Get("type"),
			Text:  strings.TrimSpace(values.Get("q")),
		},
	}
	if err := checkSources(list.Filter); err != nil {
		return screen{}, err
	}
	page, total, err := c.Queries.SourcePage(v.Context(), list.Filter, pageSize, list.Paging.offset())
	if err != nil {
		return screen{}, err
	}
	for _, s := range page {
		list.Sources = append(list.Sources, adminapi.Advised(s))
	}
	list.Paging.Total = total
	list.Counts, err = c.sourceStates(v.Context(), list.Filter.State)
	return screen{Title: "Sources", Template: "sources", Data: list}, err
}

func checkSources(f query.SourceFilter) error {
	if f.State != "" && !slices.Contains(query.SourceStates(), f.State) {
		return wire.Fail(wire.BadQuery, "state", "must be one of %s", words(query.SourceStates()))
	}
	if f.Type != "" && !slices.Contains(source.Types(), f.Type) {
		return wire.Fail(wire.BadQuery, "type", "must be one of %s", words(source.Types()))
	}
	return searchable("q", f.Text)
}

// sourceStates counts the sources in each state that has any.
func (c *Console) sourceStates(ctx context.Context, current string) (states []stateCount, err error) {
	counts, err := c.Queries.CountSources(ctx)
	for _, state := range query.SourceStates() {
		if counts[state] > 0 {
			states = append(states, stateCount{state, counts[state], Base + "/sources?state=" + state, state == current})
		}
	}
	return states, err
}

// sourceView is one source.
type sourceView struct {
	query.Source

	Now time.Time
}

func (c *Console) source(v *visit) (sourceView, error) {
	found, err := c.Queries.Source(v.Context(), v.id("id"))
	return sourceView{adminapi.Advised(found), c.Now().UTC()}, err
}

// showSource answers GET /console/sources/{id}.
func (c *Console) showSource(v *visit) (screen, error) {
	shown, err := c.source(v)
	return screen{Title: shown.URL + shown.Handle, Template: "source", Data: shown}, err
}

// sourceChange is the page that describes the effect of a change of a source.
type sourceChange struct {
	Change string
	Source sourceView
}

// confirmSource answers GET of each change.
func (c *Console) confirmSource(v *visit) (screen, error) {
	shown, err := c.source(v)
	change := chi.URLParam(v.Request, "change")
	return screen{
		Title:    upperFirst(change) + " a source",
		Template: "source-change",
		Data:     sourceChange{change, shown},
	}, err
}

// collect answers POST /console/sources/{id}/collect.
func (c *Console) collect(v *visit) (string, error) {
	changed, err := c.Commands.CollectSource(v.Context(), v.caller(), command.CollectSource{Source: v.id("id")})
	return c.sourceChanged(v, changed, err, "collecting")
}

// pause answers POST /console/sources/{id}/pause.
func (c *Console) pause(v *visit) (string, error) {
	changed, err := c.Commands.PauseSource(v.Context(), v.caller(), command.PauseSource{
		Source: v.id("id"),
		Reason: strings.TrimSpace(v.PostFormValue("reason")),
	})
	return c.sourceChanged(v, changed, err, "paused")
}

// resume answers POST /console/sources/{id}/resume.
func (c *Console) resume(v *visit) (string, error) {
	changed, err := c.Commands.ResumeSource(v.Context(), v.caller(), command.ResumeSource{Source: v.id("id")})
	return c.sourceChanged(v, changed, err, "resumed")
}

// sourceChanged is changed for a source.
func (c *Console) sourceChanged(
	v *visit, changed command.Result[source.State], refused error, done string,
) (string, error) {
	next := Base + "/sources/" + v.id("id").String() + "?done=" + done
	return c.changed(v, changed.Position, refused, next, sources.ReadModel.Name)
}

// newSourcePage is the page of a form for a new source.
var newSourcePage = screen{Title: "Add a source", Template: "source-new"}

// showNewSource answers GET /console/sources/new. The address may have the fields of the source: a trial leads here.
func (c *Console) showNewSource(v *visit) (screen, error) {
	typed := c.readTrial(v.URL.Query().Get)
	typed.page = newSourcePage
	return typed.screen(), nil
}

// addSource answers POST /console/sources/new. It redirects to the source if it already exists.
func (c *Console) addSource(v *visit, typed *trial) (string, error) {
	typed.page = newSourcePage
	made, err := c.Commands.RegisterSource(v.Context(), v.caller(), typed.source())
	next := Base + "/sources/" + made.ID.String() + "?done=registered"
	return c.changed(v, made.Position, err, next, sources.ReadModel.Name)
}
