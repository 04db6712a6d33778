package console

import (
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/deliveries"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

func (c *Console) deliveryRoutes(r chi.Router) {
	r.Get("/destinations/{id}/deliveries", c.page(c.listDeliveries))
	r.Get("/deliveries/{id}", c.page(c.showDelivery))
	r.Get("/deliveries/{id}/replay", c.page(c.confirmReplay))
	r.Post("/deliveries/{id}/replay", c.act(c.replay))
	r.Get("/deliveries/{id}/retry", c.page(c.confirmRetry))
	r.Post("/deliveries/{id}/retry", c.act(c.retry))
	r.Post("/deliveries/{id}/curl", c.page(c.showSignedCurl))
}

// deliveryList is a page of a destination's deliveries.
type deliveryList struct {
	Destination query.Destination
	Deliveries  []query.Delivery
	Statuses    []string
	Filter      deliveryForm
	Paging      paging
	Presets     []preset
	Live        bool // whether the page follows new deliveries: the first one does
	Recovers    bool // whether the filter names deliveries that have not ended
	Now         time.Time
}

// deliveryForm is the filter, as typed.
type deliveryForm struct {
	Status, Type, Feed, Since, Until string
}

// listDeliveries answers GET /console/destinations/{id}/deliveries.
func (c *Console) listDeliveries(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	list := deliveryList{
		Destination: found,
		Statuses:    statusChoices(v.URL.Query().Get("status")),
		Paging:      pagingOf(v.URL),
		Now:         c.Now().UTC(),
		Filter:      formOf(v.URL.Query(), c.Now().UTC()),
	}
	list.Live, list.Presets = list.Paging.Number == 1, presetsOf(v.URL)
	filter, err := list.Filter.read()
	if err != nil {
		return screen{}, err
	}
	list.Recovers = len(filter.States.Live()) > 0 && filter.States != 0
	filter.Limit, filter.Offset = pageSize, list.Paging.offset()
	list.Deliveries, list.Paging.Total, err = c.Queries.Deliveries(v.Context(), v.organization(), found.ID, filter,
		list.Now)
	return screen{Title: "Deliveries to " + found.Name, Template: "deliveries", Data: list}, err
}

// statusChoices lists what a filter by status offers, with what was typed if that is several at once.
func statusChoices(typed string) []string {
	all := deliverystate.Names()
	if typed != "" && !slices.Contains(all, typed) {
		all = append(all, typed)
	}
	return all
}

func (f deliveryForm) read() (filter query.DeliveryFilter, err error) {
	var known bool
	if filter.States, known = deliverystate.Named(f.Status); !known {
		return filter, wire.Fail(wire.BadQuery, "status", "must be one or several of %s", words(deliverystate.Names()))
	}
	if filter.Types, err = readTypes(f.Type); err != nil {
		return filter, err
	}
	if filter.Since, err = readTime("since", f.Since); err != nil {
		return filter, err
	}
	if filter.Feed, err = readFeed(f.Feed); err != nil {
		return filter, err
	}
	filter.Until, err = readTime("until", f.Until)
	return filter, err
}

// readTypes parses a filter by types of events.
func readTypes(typed string) ([]string, error) {
	if strings.TrimSpace(typed) == "" {
		return nil, nil
	}
	types, err := subscription.ParsePatterns(typed)
	if err != nil {
		return nil, wire.Fail(wire.BadQuery, "type", "%s", err)
	}
	return types, nil
}

// readTime parses the value of a date and time field, which is in UTC, or an ISO 8601 time.
func readTime(field, typed string) (time.Time, error) {
	if typed == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.Parse(layout, typed); err == nil {
			return at, nil
		}
	}
	at, err := wire.ParseTime(typed)
	if err != nil {
		return at, wire.Fail(wire.BadQuery, field, "must be a date and time, such as 2026-11-21T12:00")
	}
	return at, nil
}

// pendingStates are those of deliveries that wait for an attempt.
var pendingStates = deliverystate.SetOf(deliverystate.Waiting, deliverystate.Retrying)

// countDeliveries counts the deliveries of a destination in some states.
func (c *Console) countDeliveries(v *visit, to uuid.UUID, states deliverystate.Set) (total int, err error) {
	_, total, err = c.Queries.Deliveries(v.Context(), v.organization(), to, query.DeliveryFilter{States: states}, c.Now())
	return total, err
}

// deliveryView is one delivery and its stages.
type deliveryView struct {
	query.DeliveryDetail

	To       query.Destination
	Latest   []attemptView // the latest attempts, newest first
	Earlier  int           // number of attempts before them
	Why      standing
	Body     []byte // of its requests
	Envelope string // the body, indented
	Curl     string
	Now      time.Time
}

// Replayable reports whether a delivery can be sent again now: it has an outcome, and no replay is pending.
func (d deliveryView) Replayable() bool {
	return (d.State == deliverystate.Succeeded || d.State == deliverystate.Failed) && d.DueAt == nil
}

// Retryable reports whether a delivery waits for a later time, and can be sent before.
func (d deliveryView) Retryable() bool {
	switch d.Waits.For {
	case deliverystate.Debounced, deliverystate.NextAttempt, deliverystate.Resting:
		return d.State.Live()
	case deliverystate.Suspended, deliverystate.Disabled, deliverystate.Turn:
	}
	return false
}

// The shares of a page, in bytes as sent: whatever the texts, a page stays below 100 KB.
const (
	maxAttempts    = 12
	envelopeRoom   = 26_000
	curlRoom       = 20_000
	lastAnswerRoom = 16_000
	answerRoom     = 1_200 // of each earlier one
)

// showDelivery answers GET /console/deliveries/{id}.
func (c *Console) showDelivery(v *visit) (screen, error) {
	shown, err := c.delivery(v)
	if err != nil {
		return screen{}, err
	}
	if shown.Why, err = c.standing(v, shown); err != nil {
		return screen{}, err
	}
	shown.Latest, err = c.attemptViews(v, shown)
	shown.Earlier = len(shown.Attempts) - len(shown.Latest)
	return screen{Title: shown.Event.Type + " to " + shown.To.Name, Template: "delivery", Data: shown}, err
}

func (c *Console) delivery(v *visit) (shown deliveryView, err error) {
	shown.Now = c.Now().UTC()
	id := v.id("id")
	if shown.DeliveryDetail, err = c.Queries.Delivery(v.Context(), v.organization(), id, shown.Now); err != nil {
		return shown, err
	}
	if shown.To, err = c.Queries.Destination(v.Context(), v.organization(), shown.Destination.String(),
		shown.Now); err != nil {
		return shown, err
	}
	if shown.To.URL, err = c.shownAddress(v, shown.To); err != nil {
		return shown, err
	}
	body, err := envelope(shown.DeliveryDetail)
	shown.Body, shown.Envelope, shown.Curl = body, fit(pretty(body), envelopeRoom), curl(shown.To.URL, id, body)
	return shown, err
}

// confirmReplay answers GET /console/deliveries/{id}/replay.
func (c *Console) confirmReplay(v *visit) (screen, error) {
	shown, err := c.delivery(v)
	return screen{Title: "Send again", Template: "replay", Data: shown}, err
}

// replay answers POST /console/deliveries/{id}/replay.
func (c *Console) replay(v *visit) (string, error) {
	found, err := c.delivery(v)
	if err != nil {
		return "", err
	}
	replayed, err := c.Commands.ReplayDelivery(v.Context(), v.caller(), command.ReplayDelivery{
		Delivery: found.ID, Destination: found.Destination, FeedID: query.Of(found.Event.FeedID),
	})
	next := v.to("/deliveries/" + found.ID.String() + "?done=replayed")
	return c.changed(v, replayed.Position, err, next, deliveries.ReadModel.Name)
}

// confirmRetry answers GET /console/deliveries/{id}/retry.
func (c *Console) confirmRetry(v *visit) (screen, error) {
	shown, err := c.delivery(v)
	if err != nil {
		return screen{}, err
	}
	shown.Why, err = c.standing(v, shown)
	return screen{Title: "Send now", Template: "retry", Data: shown}, err
}

// retry answers POST /console/deliveries/{id}/retry.
func (c *Console) retry(v *visit) (string, error) {
	found, err := c.delivery(v)
	if err != nil {
		return "", err
	}
	retried, err := c.Commands.RetryDelivery(v.Context(), v.caller(), command.RetryDelivery{
		Delivery:    found.ID,
		Destination: found.Destination,
		Sending:     found.State == deliverystate.Delivering,
	})
	next := v.to("/deliveries/" + found.ID.String() + "?done=retried")
	return c.changed(v, retried.Position, err, next, deliveries.ReadModel.Name)
}
