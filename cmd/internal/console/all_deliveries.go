package console

import (
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (c *Console) allDeliveryRoutes(r chi.Router) {
	r.Get("/deliveries", c.page(c.listAllDeliveries))
}

// allDeliveries is a page of the deliveries to all destinations of an organization.
type allDeliveries struct {
	Deliveries []query.Delivery
	Names      map[uuid.UUID]string // of destinations
	Statuses   []string
	Feeds      []query.FeedName
	Filter     deliveryForm
	Presets    []preset
	Live       bool   // whether the page follows new deliveries: the first one does
	Later      bool   // whether the page is not the first
	First      string // of the first page
	Next       string // of the next page; empty if there is none
	Now        time.Time
}

// listAllDeliveries answers GET /console/deliveries.
func (c *Console) listAllDeliveries(v *visit) (screen, error) {
	values := v.URL.Query()
	list := allDeliveries{
		Statuses: deliveryStatuses,
		Now:      c.Now().UTC(),
		Later:    values.Get("before") != "",
		First:    withParameter(v.URL, "before", ""),
		Filter:   formOf(values, c.Now().UTC()),
	}
	list.Live, list.Presets = !list.Later, list.Filter.presets(v.URL.Path)
	filter, err := list.Filter.read()
	if err != nil {
		return screen{}, err
	}
	filter.Limit = pageSize + 1
	at, id, err := readMark("before", values.Get("before"))
	if err != nil {
		return screen{}, err
	}
	if list.Deliveries, err = c.Queries.AllDeliveries(v.Context(), v.organization(), filter, query.DeliveryMark{
		CreatedAt: at,
		ID:        id,
	}, list.Now); err != nil {
		return screen{}, err
	}
	if len(list.Deliveries) > pageSize {
		list.Deliveries = list.Deliveries[:pageSize]
		last := list.Deliveries[pageSize-1]
		list.Next = withParameter(v.URL, "before", formatMark(last.CreatedAt, last.ID))
	}
	if list.Feeds, err = c.Queries.FeedNames(v.Context(), v.organization(), maxFeedChoices); err != nil {
		return screen{}, err
	}
	list.Names, err = c.Queries.DestinationNames(v.Context(), v.organization(), destinationsOf(list.Deliveries))
	return screen{Title: "Deliveries", Template: "all-deliveries", Data: list}, err
}

func destinationsOf(deliveries []query.Delivery) []uuid.UUID {
	ids := make([]uuid.UUID, len(deliveries))
	for i, d := range deliveries {
		ids[i] = d.Destination
	}
	return ids
}

// readFeed reads the id of a feed, if there is one.
func readFeed(typed string) (uuid.UUID, error) {
	if typed == "" {
		return uuid.Nil, nil
	}
	id, ok := wire.ParseUUID(typed)
	if !ok || id == uuid.Nil {
		return uuid.Nil, wire.Fail(wire.BadQuery, "feed", "must be the id of a feed")
	}
	return id, nil
}
