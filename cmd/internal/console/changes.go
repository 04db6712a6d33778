package console

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/projections/audit"
	"carillon/query"
)

// changeList is a page of the changes of everything, newest first.
type changeList struct {
	stretch

	Changes []change
	Filter  changeForm
	Kinds   []string
	Presets []preset
	Export  string // the address of the export
}

// change is a change in words.
type change struct {
	query.RecordEntry

	Words string
	Link  string // Optional. Of what was changed, or of its changes
}

// activityKinds are the kinds of what an organization's people change.
var activityKinds = []string{audit.KindDestination, audit.KindFeed}

// listActivity answers GET /console/activity: the changes of an organization's destinations and feeds.
func (c *Console) listActivity(v *visit) (screen, error) {
	shown, err := c.changes(v, activityKinds)
	list, _ := shown.Data.(changeList)
	for i, e := range list.Changes {
		list.Changes[i].Link = v.to("/" + e.Kind + "s/" + e.Thing)
		if e.Type == "feed.deleted.v1" { // a destination's history stays
			list.Changes[i].Link = ""
		}
	}
	list.Export = ""
	shown.Title, shown.Data = "Activity", list
	return shown, err
}

// changeForm is the filter, as typed.
type changeForm struct{ Kind, Thing, Organization, Actor, Since, Until string }

// listChanges answers GET /console/record/changes.
func (c *Console) listChanges(v *visit) (screen, error) { return c.changes(v, audit.Kinds()) }

func (c *Console) changes(v *visit, kinds []string) (screen, error) {
	values := v.URL.Query()
	list := changeList{Filter: changeFormOf(values), Kinds: kinds, Presets: presetsOf(v.URL)}
	if since, asked := lastSince(values, c.Now().UTC()); asked {
		list.Filter.Since = since
	}
	filter, err := list.Filter.read(v)
	if err != nil {
		return screen{}, err
	}
	if v.shown != uuid.Nil {
		filter.Organization, filter.Kinds = v.shown, kinds
	}
	filter.Limit = pageSize + 1
	if text := values.Get("cursor"); text != "" {
		cursor, err := adminapi.ParseCursor(text)
		if err != nil {
			return screen{}, wire.Fail(wire.BadQuery, "cursor", "must be that of a page before")
		}
		filter.After = &cursor
	}
	found, err := c.Queries.RecordEntries(v.Context(), filter)
	found, list.stretch = stretchOf(v.URL, "cursor", found, func(e query.RecordEntry) string {
		return adminapi.CursorText(e.Cursor())
	})
	export := *v.URL
	export.Path += "/export"
	list.Export = withParameter(&export, "cursor", "")
	for _, e := range found {
		list.Changes = append(list.Changes, change{
			RecordEntry: e,
			Words:       audit.Describe(e, audit.Thing(e), func(at time.Time) string { return when(at) }),
			Link:        "?" + url.Values{"kind": {e.Kind}, "thing": {e.Thing}}.Encode(),
		})
	}
	return screen{Title: "Changes", Template: "changes", Data: list}, err
}

func changeFormOf(values url.Values) changeForm {
	get := func(name string) string { return strings.TrimSpace(values.Get(name)) }
	return changeForm{
		Kind:         get("kind"),
		Thing:        get("thing"),
		Organization: get("organization"),
		Actor:        get("actor"),
		Since:        get("since"),
		Until:        get("until"),
	}
}

// read parses the filter. An auditor of one organization sees only that one, whatever the filter.
func (f changeForm) read(v *visit) (filter query.EntryFilter, err error) {
	filter = query.EntryFilter{Kind: f.Kind, Thing: f.Thing, Actor: f.Actor}
	for name, text := range map[string]string{"kind": f.Kind, "thing": f.Thing, "actor": f.Actor} {
		if err := searchable(name, text); err != nil {
			return filter, err
		}
	}
	if f.Thing != "" && f.Kind == "" {
		return filter, wire.Fail(wire.BadQuery, "kind", "must be chosen beside an id or name")
	}
	window, err := deliveryForm{Since: f.Since, Until: f.Until}.read()
	if err != nil {
		return filter, err
	}
	filter.Since, filter.Until = window.Since, window.Until
	bound, err := recordForm{Organization: f.Organization}.read(v)
	filter.Organization = bound.Organization
	if filter.Kind == audit.KindOrganization && filter.Thing != "" { // all that belongs to it
		id, known := wire.ParseUUID(filter.Thing)
		if !known || filter.Organization != uuid.Nil && filter.Organization != id {
			return filter, query.ErrNotFound
		}
		filter.Kind, filter.Thing, filter.Organization = "", "", id
	}
	return filter, err
}

// exportChanges answers GET /console/record/changes/export with one entry a line, oldest first, like the admin API.
func (c *Console) exportChanges(w http.ResponseWriter, v *visit) error {
	filter, err := changeFormOf(v.URL.Query()).read(v)
	if err != nil {
		return err
	}
	c.export(w, v, "audit", func() error {
		return c.Queries.EachRecordEntry(v.Context(), filter, adminapi.RecordLines(w))
	})
	return nil
}
