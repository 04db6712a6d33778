package console

import (
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/projections/audit"
	"carillon/query"
)

func (c *Console) recordRoutes(r chi.Router) {
	r.Get("/record", c.page(c.listRecord))
	r.Get("/record/changes", c.page(c.listChanges))
	r.Get("/record/changes/export", c.handle(c.exportChanges))
	r.Get("/record/export", c.handle(c.exportRecord))
	r.Get("/record/{id}", c.page(c.showRecord))
	r.Get("/record/{id}/export", c.handle(c.exportOne))
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
	shown := recordView{ID: history[0].Destination, Organization: history[0].Owner()}
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

// maxHistory bounds the changes in a list; the export has all.
const maxHistory = 500

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
	record, err := c.Queries.RecordEntries(v.Context(), query.EntryFilter{
		Kind:  audit.KindDestination,
		Thing: history[0].Destination.String(),
		Limit: maxHistory,
	})
	if err != nil {
		return line, err
	}
	line.addEntries(history, record)
	return line, c.Queries.AddSubscriptions(v.Context(), history[0].Destination, line.State, at)
}

// history returns the history of the destination in the path.
func (c *Console) history(v *visit) ([]query.AuditEntry, error) {
	history, err := c.Queries.Audit(v.Context(), v.id("id"))
	if err != nil {
		return nil, err
	}
	if bound := v.session.Organization; bound != uuid.Nil && history[0].Owner() != bound {
		return nil, query.ErrNotFound
	}
	return history, nil
}

// exportOne answers GET /console/record/{id}/export with one entry a line, like the admin API.
func (c *Console) exportOne(w http.ResponseWriter, v *visit) error {
	history, err := c.history(v)
	if err != nil {
		return err
	}
	id := history[0].Destination
	c.export(w, v, "audit-"+id.String(), func() error {
		write := adminapi.AuditLines(w)
		for _, e := range history {
			if err := write(e); err != nil {
				return err
			}
		}
		return c.Queries.DisclosureEntries(v.Context(), id, write)
	})
	return nil
}

// exportRecord answers GET /console/record/export: the histories of all destinations, or of those of one
// organization.
func (c *Console) exportRecord(w http.ResponseWriter, v *visit) error {
	filter, err := recordForm{Organization: v.URL.Query().Get("organization")}.read(v)
	if err != nil {
		return err
	}
	c.export(w, v, "audit", func() error {
		return c.Queries.WholeRecord(v.Context(), filter.Organization, adminapi.AuditLines(w))
	})
	return nil
}

// export answers with lines as they are written. On an error it breaks the connection, so that a part is not mistaken
// for the whole.
func (c *Console) export(w http.ResponseWriter, v *visit, name string, write func() error) {
	adminapi.ExportHeaders(w, name)
	if err := write(); err != nil {
		c.Log.WarnContext(v.Context(), "audit export interrupted", "error", err)
		panic(http.ErrAbortHandler)
	}
}
