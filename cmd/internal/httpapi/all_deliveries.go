package httpapi

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/recipients"
	"carillon/cmd/internal/wire"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// noFeed stands for a feed that does not exist. uuid.Nil can't: in the filter it means any feed.
var noFeed = uuid.UUID{15: 1}

// deliveryFilter reads what all lists of deliveries are filtered by, but for the end of the window.
func deliveryFilter(q *wire.Query) query.DeliveryFilter {
	states, _ := deliverystate.Named(strings.Join(q.Words("status", deliverystate.Names()...), ","))
	return query.DeliveryFilter{
		States: states,
		Types:  typePatterns(q),
		Feed:   feedID(q),
		Since:  q.Time("since"),
	}
}

// feedID reads the parameter feedId. In a filter, a zero value means "any"; as a parameter it is a value that nothing
// has.
func feedID(q *wire.Query) uuid.UUID {
	id := q.UUID("feedId")
	if q.Has("feedId") && id == uuid.Nil {
		return noFeed
	}
	return id
}

// typePatterns reads the parameter type.
func typePatterns(q *wire.Query) []string {
	if !q.Has("type") {
		return nil
	}
	patterns, err := subscription.ParsePatterns(q.Text("type"))
	if err != nil {
		q.Fail("type", "%s", err)
	}
	return patterns
}

// listAllDeliveries answers GET /events/deliveries.
func (a *API) listAllDeliveries(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "status", "type", "feedId", "eventId", "destination", "since", "until", "limit")
	filter := deliveryFilter(q)
	event, limit := q.UUID("eventId"), pageLimit(q)
	until, before := pageEnd(q)
	filter.Until, filter.Limit = until, limit+1
	checkWindow(q, filter.Since, filter.Until)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	if q.Has("destination") {
		id, err := a.destinationOfQuery(r, q.Text("destination"))
		if err != nil {
			return wire.Reply{}, err
		}
		filter.Destination = id
	}
	if q.Has("eventId") {
		to, err := a.Queries.DestinationIDs(r.Context(), callerOf(r).Organization)
		if err != nil {
			return wire.Reply{}, err
		}
		filter.Among = recipients.DeliveryIDs(event, to)
	}
	after := query.DeliveryMark{CreatedAt: before.at, ID: before.id}
	deliveries, err := a.Queries.AllDeliveries(r.Context(), callerOf(r).Organization, filter, after, a.Now())
	return wire.OK(stretchOf(deliveries, limit, func(d query.Delivery) mark { return mark{d.CreatedAt, d.ID} })), err
}

// destinationOfQuery returns the id of the destination that a query parameter names as a path does.
func (a *API) destinationOfQuery(r *http.Request, ref string) (uuid.UUID, error) {
	if err := checkReference(wire.BadQuery, "destination", ref); err != nil {
		return uuid.Nil, err
	}
	id, err := a.Queries.DestinationID(r.Context(), callerOf(r).Organization, ref)
	return id, wire.NotFoundError(err, "destination")
}
