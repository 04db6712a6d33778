package console

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore/instant"
	"carillon/query"
)

func (c *Console) recordRoutes(r chi.Router) {
	r.Get("/record", c.page(c.listRecord))
	r.Get("/record/changes", c.page(c.listChanges))
	r.Get("/record/changes/export", c.exportChanges)
	r.Get("/record/export", c.exportRecord)
	r.Get("/record/{id}", c.page(c.showRecord))
	r.Get("/record/{id}/export", c.exportOne)
}

// recordList is a page of all existing and deleted destinations.
type recordList struct {
	Destinations []query.RecordedDestination
	Filter       recordForm
	Paging       paging
	Export       string // the address of the export
}

// recordForm is the filter, as typed.
type recordForm struct{ Text, Organization, Status string }

// listRecord answers GET /console/record.
func (c *Console) listRecord(v *visit) (screen, error) {
	values := v.URL.Query()
	list := recordList{
		Paging: pagingOf(v.URL),
		Filter: recordForm{values.Get("q"), values.Get("organization"), values.Get("status")},
	}
	filter, err := list.Filter.read(v)
	if err != nil {
		return screen{}, err
	}
	filter.Limit, filter.Offset = pageSize, list.Paging.offset()
	export := *v.URL
	export.Path, export.RawQuery = Base+"/record/export", ""
	list.Export = withParameter(&export, "organization", list.Filter.Organization)
	list.Destinations, list.Paging.Total, err = c.Queries.Record(v.Context(), filter)
	return screen{Title: "Record", Template: "record", Data: list}, err
}

// read parses the filter. An auditor of one organization sees only that one, whatever the filter.
func (f recordForm) read(v *visit) (filter query.RecordFilter, err error) {
	filter = query.RecordFilter{Text: f.Text, Status: f.Status}
	if err := searchable("q", f.Text); err != nil {
		return filter, err
	}
	if f.Status != "" && f.Status != "there" && f.Status != "deleted" {
		return filter, wire.Fail(wire.BadQuery, "status", "must be there or deleted")
	}
	if f.Organization != "" {
		id, ok := wire.ParseUUID(f.Organization)
		if !ok {
			return filter, wire.Fail(wire.BadQuery, "organization", "must be the id of an organization")
		}
		filter.Organization = id
	}
	if bound := v.session.Organization; bound != uuid.Nil {
		filter.Organization = bound
	}
	return filter, nil
}

// recordView is the history of one destination, with its state at a time.
type recordView struct {
	ID               uuid.UUID
	Organization     uuid.UUID
	OrganizationName string
	TimeLine         timeLine
	Disclosures      []query.AuditEntry // newest first
}

// showRecord answers GET /console/record/{id}.
func (c *Console) showRecord(v *visit) (screen, error) {
	history, err := c.history(v)
	if err != nil {
		return screen{}, err
	}
	shown := recordView{ID: history[0].Destination, Organization: history[0].Organization}
	if shown.TimeLine, err = c.timeLine(v, history); err != nil {
		return screen{}, err
	}
	// Otherwise the organization is gone
	if found, err := c.Queries.Organization(v.Context(), shown.Organization); err == nil {
		shown.OrganizationName = found.Name
	}
	shown.Disclosures, err = c.Queries.Disclosures(v.Context(), shown.ID, maxDisclosures)
	return screen{Title: shown.TimeLine.Now.Name, Template: "recorded", Data: shown}, err
}

// timeLine draws a history, with the state at the moment that the visit names.
func (c *Console) timeLine(v *visit, history []query.AuditEntry) (timeLine, error) {
	line, err := newTimeLine(history, v.URL.Query(), c.Now().UTC())
	if err != nil {
		return line, err
	}
	at := line.At
	if !line.Past {
		at = query.AuditHorizon(at)
	}
	return line, c.Queries.AddSubscriptions(v.Context(), history[0].Destination, line.State, at)
}

// history returns the history of the destination in the path.
func (c *Console) history(v *visit) ([]query.AuditEntry, error) {
	id, err := v.id("id")
	if err != nil {
		return nil, err
	}
	history, err := c.Queries.Audit(v.Context(), id)
	if err != nil {
		return nil, err
	}
	if bound := v.session.Organization; bound != uuid.Nil && history[0].Organization != bound {
		return nil, query.ErrNotFound
	}
	return history, nil
}

// exportOne answers GET /console/record/{id}/export with one entry a line, like the admin API.
func (c *Console) exportOne(w http.ResponseWriter, r *http.Request) {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	history, err := c.history(v)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	id := history[0].Destination
	c.export(w, r, "audit-"+id.String(), func(each func(query.AuditEntry) error) error {
		for _, e := range history {
			if err := each(e); err != nil {
				return err
			}
		}
		return c.Queries.DisclosureEntries(r.Context(), id, each)
	})
}

// exportRecord answers GET /console/record/export: the histories of all destinations, or of those of one
// organization.
func (c *Console) exportRecord(w http.ResponseWriter, r *http.Request) {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	filter, err := recordForm{Organization: v.URL.Query().Get("organization")}.read(v)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.export(w, r, "audit", func(each func(query.AuditEntry) error) error {
		return c.Queries.WholeRecord(r.Context(), filter.Organization, each)
	})
}

// export writes entries as they are read. On an error it breaks the connection, so that a part is not mistaken for
// the whole.
func (c *Console) export(w http.ResponseWriter, r *http.Request, name string,
	read func(func(query.AuditEntry) error) error) {
	header := w.Header()
	header.Set("Content-Type", "application/x-ndjson")
	header.Set("Content-Disposition", `attachment; filename="`+name+`.ndjson"`)
	err := read(func(e query.AuditEntry) error {
		line, err := json.Marshal(adminapi.AuditEntryOf(e), instant.JSON)
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		return err
	})
	if err != nil {
		c.Log.WarnContext(r.Context(), "audit export interrupted", "error", err)
		panic(http.ErrAbortHandler)
	}
}
