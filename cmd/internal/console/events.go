package console

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/recipients"
	"carillon/cmd/internal/wire"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

func (c *Console) eventRoutes(r chi.Router) {
	r.Get("/events", c.page(c.listEvents))
	r.Get("/events/{id}", c.page(c.showEvent))
}

// eventList is a page of published events.
type eventList struct {
	stretch

	Events []query.PublishedEvent
	Types  []string
	Feeds  []query.FeedName
	Filter eventForm
	Asked  bool // whether the filter restricts
	Now    time.Time
}

// eventForm is the filter, as typed.
type eventForm struct {
	Name, Type, Feed, Since, Until string
}

// maxFeedChoices is the number of feeds to choose from; others can be given by id, in the address.
const maxFeedChoices = 200

// listEvents answers GET /console/events.
func (c *Console) listEvents(v *visit) (screen, error) {
	values := v.URL.Query()
	list := eventList{Now: c.Now().UTC(), Filter: eventForm{
		Name:  strings.TrimSpace(values.Get("q")),
		Type:  values.Get("type"),
		Feed:  values.Get("feed"),
		Since: values.Get("since"),
		Until: values.Get("until"),
	}}
	list.Asked = list.Filter != eventForm{}
	filter, err := c.readEvents(list.Filter, values.Get("before"))
	if err != nil {
		return screen{}, err
	}
	for _, t := range c.Commands.Catalog.Types() {
		list.Types = append(list.Types, t.Name)
	}
	if list.Feeds, err = c.Queries.FeedNames(v.Context(), v.organization(), maxFeedChoices); err != nil {
		return screen{}, err
	}
	list.Events, err = c.Queries.PublishedEvents(v.Context(), v.organization(), filter)
	list.Events, list.stretch = stretchOf(v.URL, "before", list.Events, func(e query.PublishedEvent) string {
		return formatMark(e.Time, e.ID)
	})
	return screen{Title: "Events", Template: "events", Data: list}, err
}

func (c *Console) readEvents(f eventForm, before string) (filter query.EventFilter, err error) {
	filter = query.EventFilter{Subject: f.Name, Limit: pageSize + 1}
	if id, ok := wire.ParseUUID(f.Name); ok {
		filter.ID = id
	}
	if err := searchable("q", f.Name); err != nil {
		return filter, err
	}
	types, err := readTypes(f.Type)
	if err != nil {
		return filter, err
	}
	filter.Types = c.Commands.Catalog.Matching(types)
	if filter.Feed, err = readFeed(f.Feed); err != nil {
		return filter, err
	}
	if filter.Since, err = readTime("since", f.Since); err != nil {
		return filter, err
	}
	if filter.Until, err = readTime("until", f.Until); err != nil {
		return filter, err
	}
	at, id, err := readMark("before", before)
	filter.Before = query.EventMark{Time: at, ID: id}
	return filter, err
}

// stretch is the place of a page in a list that is read by marks.
type stretch struct {
	Later bool   // whether the page is not the first
	First string // address of the first page
	Next  string // of the next page; empty if there is none
}

// stretchOf returns the entries of a page, of which one more was found if there is a next page, and its place. An
// address has the mark of the entry before in a parameter.
func stretchOf[T any](at *url.URL, parameter string, found []T, mark func(T) string) ([]T, stretch) {
	s := stretch{Later: at.Query().Get(parameter) != "", First: withParameter(at, parameter, "")}
	if len(found) > pageSize {
		found = found[:pageSize]
		s.Next = withParameter(at, parameter, mark(found[pageSize-1]))
	}
	return found, s
}

// formatMark writes a position in a list for an address.
func formatMark(at time.Time, id uuid.UUID) string {
	return at.UTC().Format(time.RFC3339Nano) + "~" + id.String()
}

func readMark(field, text string) (at time.Time, id uuid.UUID, err error) {
	if text == "" {
		return at, id, nil
	}
	when, which, _ := strings.Cut(text, "~")
	at, err = time.Parse(time.RFC3339Nano, when)
	id, ok := wire.ParseUUID(which)
	if err != nil || !ok {
		return at, id, wire.Fail(wire.BadQuery, field, "must be taken from a link of the list")
	}
	return at, id, nil
}

// withParameter returns an address with one parameter changed; an empty value removes it.
func withParameter(at *url.URL, name, value string) string {
	values := at.Query()
	values.Del("done")
	if values.Set(name, value); value == "" {
		values.Del(name)
	}
	if len(values) == 0 {
		return at.Path
	}
	return at.Path + "?" + values.Encode()
}

// eventView is an event and its recipients.
type eventView struct {
	query.PublishedEvent
	recipients.Page

	Body   string
	Who    string
	Paging paging
	Now    time.Time
}

// showEvent answers GET /console/events/{id}.
func (c *Console) showEvent(v *visit) (screen, error) {
	shown := eventView{Now: c.Now().UTC(), Who: v.URL.Query().Get("who"), Paging: pagingOf(v.URL)}
	var err error
	if shown.PublishedEvent, err = c.Queries.PublishedEvent(v.Context(), v.organization(), v.id("id")); err != nil {
		return screen{}, err
	}
	filter := recipients.Filter{Limit: pageSize, Offset: shown.Paging.offset()}
	if shown.Who != "" {
		filter.In = []deliverystate.State{deliverystate.State(shown.Who)}
		if !slices.Contains(recipientGroups, filter.In[0]) {
			return screen{}, wire.Fail(wire.BadQuery, "who", "must be one of %s", words(recipientGroups))
		}
	}
	finder := recipients.Finder{Queries: c.Queries, Organization: v.organization(), Now: shown.Now}
	shown.Page, err = finder.Of(v.Context(), shown.PublishedEvent, filter)
	shown.Body, shown.Paging.Total = pretty(shown.Data), shown.Total
	return screen{Title: shown.Type, Template: "event", Data: &shown}, err
}

// recipientGroups are the groups of recipients on the page of an event: each is in one of them.
var recipientGroups = append(deliverystate.States(), recipients.None)

// Groups returns the groups that have destinations, and the one on show.
func (e eventView) Groups() []deliverystate.State {
	return slices.DeleteFunc(slices.Clone(recipientGroups), func(group deliverystate.State) bool {
		return e.By[group] == 0 && string(group) != e.Who
	})
}

// Only returns the address of the page with only one group of destinations.
func (e eventView) Only(who deliverystate.State) string {
	at := e.Paging.address
	at.RawQuery = ""
	return withParameter(&at, "who", string(who))
}
