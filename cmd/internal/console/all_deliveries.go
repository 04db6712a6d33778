package console

import (
	"context"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/projections/deliveries/deliverystate"
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

func (c *Console) replayAllRoutes(r chi.Router) {
	r.Get("/deliveries/replay", c.page(c.askReplayAll))
	r.Post("/deliveries/replay", c.act(c.replayAll))
	r.Get("/work/{work}", c.page(c.showWorkOnAll))
	r.Post("/work/{work}", c.act(c.resumeWork))
}

// replayAsked is the page before a replay to all destinations: its filter, and what matches.
type replayAsked struct {
	Filter  deliveryForm
	Found   query.Sendable
	Most    int
	TooMany bool
	Presets []preset
}

// askReplayAll answers GET /console/deliveries/replay.
func (c *Console) askReplayAll(v *visit) (screen, error) {
	now := c.Now().UTC()
	shown := replayAsked{Filter: formOf(v.URL.Query(), now), Most: maxReplayed}
	shown.Presets = presetsOf(v.URL)
	var err error
	_, shown.Found, err = c.workOnAll(v, shown.Filter)
	shown.TooMany = shown.Found.Deliveries() > maxReplayed
	return screen{Title: "Send what failed", Template: "replay-all", Data: shown}, err
}

// workOnAll returns the work that a form describes, and what matches it.
func (c *Console) workOnAll(v *visit, form deliveryForm) (Work, query.Sendable, error) {
	form.Status, form.Feed = deliverystate.Failing, ""
	w, filter, err := c.describedWork(v, form)
	if err != nil {
		return w, query.Sendable{}, err
	}
	w.Kind, filter.Limit = replayKind, maxReplayed+1
	found, err := c.Queries.CountFailing(v.Context(), v.organization(), filter, c.Now())
	w.Total = found.Deliveries()
	return w, found, err
}

// replayAll answers POST /console/deliveries/replay.
func (c *Console) replayAll(v *visit) (string, error) {
	w, _, err := c.workOnAll(v, formOf(v.PostForm, c.Now().UTC()))
	if err != nil {
		return "", err
	}
	return c.startWork(v, w)
}

// showWorkOnAll answers GET /console/work/{work}.
func (c *Console) showWorkOnAll(v *visit) (screen, error) {
	return c.progressOf(v, query.Destination{}, "Sending to all destinations")
}

// nextPart returns the deliveries that work continues with.
func (c *Console) nextPart(ctx context.Context, w *Work, filter query.DeliveryFilter) ([]query.Delivery, error) {
	if w.Destination == uuid.Nil {
		return c.Queries.FailingAfter(ctx, w.Organization, filter, w.AfterAt, w.AfterID, c.Now())
	}
	return c.Queries.DeliveriesAfter(ctx, w.Organization, w.Destination, filter, w.AfterAt, w.AfterID, c.Now())
}
