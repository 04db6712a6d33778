package httpapi

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/cmd/internal/recipients"
	"carillon/cmd/internal/wire"
	"carillon/command/catalog"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

func (a *API) eventRoutes(r routes) {
	r.read.Get("/events/events", wire.Events.Handle(a.listEvents))
	r.read.Get("/events/events/{id}", wire.Events.Handle(a.getEvent))
}

// listEvents answers GET /events/events.
func (a *API) listEvents(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "type", "feedId", "subject", "since", "until", "limit")
	filter := query.EventFilter{Subject: q.Text("subject"), Feed: feedID(q), Since: q.Time("since")}
	filter.Types = a.Commands.Catalog.Matching(typePatterns(q))
	if q.Has("subject") && filter.Subject == "" {
		q.Fail("subject", "must be the whole subject of an event")
	}
	limit := pageLimit(q)
	until, before := pageEnd(q)
	filter.Until, filter.Before, filter.Limit = until, query.EventMark{Time: before.at, ID: before.id}, limit+1
	checkWindow(q, filter.Since, filter.Until)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	events, err := a.Queries.PublishedEvents(r.Context(), callerOf(r).Organization, filter)
	return wire.OK(stretchOf(events, limit, func(e query.PublishedEvent) mark { return mark{e.Time, e.ID} })), err
}

// getEvent answers GET /events/events/{id}.
func (a *API) getEvent(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "received", "limit", "offset")
	filter := recipients.Filter{}
	switch q.OneOf("received", "true", "false") {
	case "true":
		filter.In = recipients.Received
	case "false":
		filter.In = []deliverystate.State{recipients.None}
	}
	filter.Limit, filter.Offset = q.Page(usualPage, mostPage)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	event, err := a.Queries.PublishedEvent(r.Context(), callerOf(r).Organization, id)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "event")
	}
	finder := recipients.Finder{Queries: a.Queries, Organization: callerOf(r).Organization, Now: a.Now()}
	page, err := finder.Of(r.Context(), event, filter)
	if err != nil {
		return wire.Reply{}, err
	}
	detail := EventDetail{
		PublishedEvent: event,
		ReceivedBy:     page.All() - page.By[recipients.None],
		MissedBy:       page.By[recipients.None],
		Deliveries:     map[deliverystate.State]int{},
		Recipients:     wire.PageOf(wire.ListOf(page.Recipients, recipientOf), page.Total, filter.Limit, filter.Offset),
	}
	for _, state := range deliverystate.States() {
		detail.Deliveries[state] = page.By[state]
	}
	rendered, err := withData(detail, event.Data)
	return wire.OK(rendered), err
}

// EventDetail is an event with the destinations that it could have gone to.
type EventDetail struct {
	query.PublishedEvent `json:",inline"`
	Data                 jsontext.Value              `json:"data"`
	ReceivedBy           int                         `json:"receivedBy"`
	MissedBy             int                         `json:"missedBy"`
	Deliveries           map[deliverystate.State]int `json:"deliveries"`
	Recipients           wire.Page[recipientJSON]    `json:"recipients"`
}

// recipientJSON is a destination with its delivery of the event, or with the reason why it has none.
type recipientJSON struct {
	DestinationID uuid.UUID         `json:"destinationId"`
	Name          string            `json:"name"`
	Status        string            `json:"status"`
	Delivery      *recipientRowJSON `json:"delivery"`
	Reason        *string           `json:"reason"`
	ReasonAt      *time.Time        `json:"reasonAt"`
}

type recipientRowJSON struct {
	ID           uuid.UUID             `json:"id"`
	Status       string                `json:"status"`
	State        deliverystate.State   `json:"state"`
	WaitsFor     *deliverystate.Reason `json:"waitsFor"`
	AttemptCount int                   `json:"attemptCount"`
	CreatedAt    time.Time             `json:"createdAt"`
	CompletedAt  *time.Time            `json:"completedAt"`
	LastAttempt  *query.Attempt        `json:"lastAttempt"`
}

func recipientOf(to recipients.Recipient) recipientJSON {
	j := recipientJSON{
		DestinationID: to.ID,
		Name:          to.Name,
		Status:        to.Status,
		Reason:        wire.Nullable(string(to.Why)),
		ReasonAt:      wire.Nullable(to.At),
	}
	if row := to.Delivery; row != nil {
		j.Delivery = &recipientRowJSON{
			ID:           row.ID,
			Status:       row.Status,
			State:        row.State,
			WaitsFor:     row.WaitsFor,
			AttemptCount: row.AttemptCount,
			CreatedAt:    row.CreatedAt,
			CompletedAt:  row.CompletedAt,
			LastAttempt:  row.LastAttempt,
		}
	}
	return j
}

func (a *API) catalogRoutes(r routes) {
	r.read.Get("/events/types", wire.Events.Handle(wire.NoQuery(a.listEventTypes)))
}

// listEventTypes answers GET /events/types.
func (a *API) listEventTypes(*http.Request) (wire.Reply, error) {
	return wire.OK(eventTypesJSON{Types: a.Commands.Catalog.Types()}), nil
}

type eventTypesJSON struct {
	Types []catalog.Type `json:"types"`
}
