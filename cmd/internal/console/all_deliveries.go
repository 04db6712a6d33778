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
	stretch

	Deliveries []query.Delivery
	Statuses   []string
	Feeds      []query.FeedName
	Filter     deliveryForm
	Presets    []preset
	Live       bool // whether the page follows new deliveries: the first one does
	Now        time.Time
}

// listAllDeliveries answers GET /console/deliveries.
func (c *Console) listAllDeliveries(v *visit) (screen, error) {
	values := v.URL.Query()
	list := allDeliveries{
		Statuses: statusChoices(values.Get("status")),
		Now:      c.Now().UTC(),
		Filter:   formOf(values, c.Now().UTC()),
	}
	list.Presets = presetsOf(v.URL)
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
	list.Deliveries, list.stretch = stretchOf(v.URL, "before", list.Deliveries, func(d query.Delivery) string {
		return formatMark(d.CreatedAt, d.ID)
	})
	list.Live = !list.Later
	list.Feeds, err = c.Queries.FeedNames(v.Context(), v.organization(), maxFeedChoices)
	return screen{Title: "Deliveries", Template: "all-deliveries", Data: list}, err
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
