package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/command/webhook"
	"carillon/projections/audit"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/subscriptions"
	"carillon/query"
)

const pageSize = 50

func (c *Console) destinationRoutes(r chi.Router) {
	r.Get("/destinations", c.page(c.listDestinations))
	r.Get("/destinations/{id}", c.page(c.showDestination))
	r.Get("/destinations/{id}/{change:enable|disable|delete|test|validate|recover}", c.page(c.confirmChange))
	r.Post("/destinations/{id}/enable", c.act(c.enable))
	r.Post("/destinations/{id}/disable", c.act(c.disable))
	r.Post("/destinations/{id}/recover", c.act(c.recoverDestination))
	r.Post("/destinations/{id}/delete", c.act(c.deleteDestination))
	r.Post("/destinations/{id}/test", c.page(c.test))
	r.Post("/destinations/{id}/validate", c.page(c.validate))
}

// destinationPath is the address of a destination's page.
func (v *visit) destinationPath(id uuid.UUID, done string) string {
	to := v.to("/destinations/" + id.String())
	if done != "" {
		to += "?done=" + done
	}
	return to
}

// destinationList is a page of the list of destinations.
type destinationList struct {
	Destinations []query.Destination
	Sparks       map[uuid.UUID]spark
	Failing      map[uuid.UUID]query.Failures
	Notices      string // the id of the destination for notices; empty if there is none
	Text, Status string // the filter, as typed
	Statuses     []string
	Paging       paging
	Now          time.Time
}

// failing is the filter for destinations that need attention.
const failing = "failing"

var destinationStatuses = []string{"enabled", "disabled", "auto_disabled", failing}

// listDestinations answers GET /console/destinations.
func (c *Console) listDestinations(v *visit) (screen, error) {
	values := v.URL.Query()
	list := destinationList{
		Text:     strings.TrimSpace(values.Get("q")),
		Status:   values.Get("status"),
		Statuses: destinationStatuses,
		Paging:   pagingOf(v.URL),
		Now:      c.Now().UTC(),
	}
	if err := searchable("q", list.Text); err != nil {
		return screen{}, err
	}
	if list.Status != "" && !slices.Contains(destinationStatuses, list.Status) {
		return screen{}, wire.Fail(wire.BadQuery, "status", "must be one of %s", words(destinationStatuses))
	}
	var err error
	list.Destinations, list.Paging.Total, err = c.Queries.FindDestinations(v.Context(), v.organization(),
		query.DestinationFilter{
			Text:   list.Text,
			Status: list.Status,
			Limit:  pageSize,
			Offset: list.Paging.offset(),
		})
	if err != nil {
		return screen{}, err
	}
	for i := range list.Destinations {
		list.Destinations[i].URL = publicAddress(list.Destinations[i])
	}
	switch notices, err := c.Queries.DestinationID(v.Context(), v.organization(), destination.NoticesExternalID); {
	case err == nil:
		list.Notices = notices.String()
	case !errors.Is(err, query.ErrNotFound):
		return screen{}, err
	}
	if list.Failing, err = c.Queries.Failures(v.Context(), wire.ListOf(list.Destinations,
		func(d query.Destination) uuid.UUID { return d.ID }), list.Now.Add(-command.RecoveryWindow)); err != nil {
		return screen{}, err
	}
	list.Sparks, err = c.sparks(v, list.Destinations, list.Now)
	return screen{Title: "Destinations", Template: "destinations", Data: list}, err
}

// destinationView is one destination, now or at an earlier time.
type destinationView struct {
	query.Destination

	Subscriptions []query.Subscription
	FeedNames     map[uuid.UUID]string // of their feeds
	Deliveries    []query.Delivery
	Failing       query.Failures
	Alarm         *alarm               // nil if nothing is wrong
	Masked        map[uuid.UUID]string // its secrets
	Answering     answering
	TimeLine      timeLine
	Disclosures   []query.AuditEntry // newest first
	Now           time.Time
}

const maxSubscriptions, maxDeliveries, maxDisclosures = 100, 10, 20

// showDestination answers GET /console/destinations/{id}. With the parameter at, or moment from the slider, it shows
// the state at that time; a deleted destination is shown from its history alone.
func (c *Console) showDestination(v *visit) (screen, error) {
	id := v.id("id")
	history, err := c.Queries.Audit(v.Context(), id)
	if err != nil {
		return screen{}, err
	}
	if history[0].Owner() != v.organization() {
		return screen{}, query.ErrNotFound
	}
	shown := destinationView{Now: c.Now().UTC()}
	if shown.TimeLine, err = c.timeLine(v, history); err != nil {
		return screen{}, err
	}
	if shown.Disclosures, err = c.Queries.Disclosures(v.Context(), id, maxDisclosures); err != nil {
		return screen{}, err
	}
	if shown.TimeLine.Now.Status == "deleted" {
		shown.ID, shown.Name = id, shown.TimeLine.Now.Name
		return screen{Title: shown.Name, Template: "destination", Data: shown}, nil
	}
	err = c.readDestination(v, id, &shown)
	return screen{Title: shown.Name, Template: "destination", Data: shown}, err
}

func (c *Console) readDestination(v *visit, id uuid.UUID, shown *destinationView) (err error) {
	if shown.Destination, err = c.Queries.Destination(v.Context(), v.organization(), id.String(), shown.Now); err != nil {
		return err
	}
	if shown.Subscriptions, _, err = c.Queries.Subscriptions(v.Context(), v.organization(), id, maxSubscriptions,
		0); err != nil {
		return err
	}
	if shown.FeedNames, err = c.feedNames(v, shown.Subscriptions); err != nil {
		return err
	}
	shown.Deliveries, _, err = c.Queries.Deliveries(v.Context(), v.organization(), id,
		query.DeliveryFilter{Limit: maxDeliveries}, shown.Now)
	if err != nil {
		return err
	}
	if shown.Failing, err = c.failing(v, id); err != nil {
		return err
	}
	if shown.Alarm, err = c.alarm(v, shown.Destination, shown.Failing); err != nil {
		return err
	}
	if shown.Answering, err = c.answering(v, id, shown.Now); err != nil {
		return err
	}
	if shown.Masked, err = c.masked(v, id, shown.Secrets); err != nil {
		return err
	}
	shown.URL, err = c.shownAddress(v, shown.Destination)
	shown.TimeLine.Now.URL = shown.URL // the audit trail has the public part
	return err
}

// failing counts the deliveries that a recovery of a destination is for.
func (c *Console) failing(v *visit, id uuid.UUID) (query.Failures, error) {
	all, err := c.Queries.Failures(v.Context(), []uuid.UUID{id}, c.Now().UTC().Add(-command.RecoveryWindow))
	return all[id], err
}

// masked returns enough of the secrets to distinguish them.
func (c *Console) masked(v *visit, id uuid.UUID, secrets []query.Secret) (map[uuid.UUID]string, error) {
	all := map[uuid.UUID]string{}
	for _, s := range secrets {
		secret, err := c.secret(v.Context(), id, s.Sealed)
		switch {
		case errors.Is(err, errUnavailable):
			all[s.ID] = "can't be read any more"
		case err != nil:
			return nil, err
		default:
			all[s.ID] = secret.Masked()
		}
	}
	return all, nil
}

// confirmation is the page that describes the effect of a change.
type confirmation struct {
	Change      string
	Destination query.Destination
	Waiting     int // pending deliveries of the destination
	Missed      command.Missed
	Failing     query.Failures
	Recovery    command.Recovery
	TooMany     bool // to be counted, and sent, at one time
	Secret      uuid.UUID
}

// confirmChange answers GET of each change.
func (c *Console) confirmChange(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	if found.URL, err = c.shownAddress(v, found); err != nil {
		return screen{}, err
	}
	waiting, err := c.countDeliveries(v, found.ID, pendingStates)
	if err != nil {
		return screen{}, err
	}
	shown := confirmation{Change: chi.URLParam(v.Request, "change"), Destination: found, Waiting: waiting}
	switch shown.Change {
	case "enable":
		if shown.Missed, err = c.Commands.MissedEvents(v.Context(), v.caller(), found.ID); err != nil {
			return screen{}, err
		}
		shown.Failing, err = c.failing(v, found.ID)
	case "recover":
		shown.Recovery, err = c.Commands.CountRecovery(v.Context(), v.caller(), command.RecoverDestination{
			Destination: found.ID,
		})
		if refusal := (*command.Refusal)(nil); errors.As(err, &refusal) && refusal.Kind == command.Invalid {
			shown.TooMany, err = true, nil
		}
	}
	return screen{Title: upperFirst(shown.Change) + " " + found.Name, Template: "confirm", Data: shown}, err
}

// ofDestination are the consumers by which a change of a destination is visible, and effective for its deliveries.
var ofDestination = []string{destinations.ReadModel.Name, audit.ReadModel.Name, dispatching.Name,
	facts.Name}

func (c *Console) destination(v *visit) (query.Destination, error) {
	return c.Queries.Destination(v.Context(), v.organization(), v.id("id").String(), c.Now())
}

// enable answers POST /console/destinations/{id}/enable. If missed events, or what failed, are requested, it redirects
// to the page that sends them.
func (c *Console) enable(v *visit) (string, error) {
	id := v.id("id")
	switch v.PostForm.Get("then") {
	case "missed":
	case "recover":
		_, err := c.switchTo(v, true, "enabled")
		return v.destinationPath(id, "") + "/recover", err
	default:
		return c.switchTo(v, true, "enabled")
	}
	missed, err := c.Commands.MissedEvents(v.Context(), v.caller(), id)
	if err != nil {
		return "", err
	}
	if _, err := c.switchTo(v, true, "enabled"); err != nil {
		return "", err
	}
	window := url.Values{}
	if !missed.More { // otherwise they are sent in parts
		window.Set("since", missed.Since.UTC().Format(time.DateOnly+"T"+time.TimeOnly))
		window.Set("until", missed.Until.UTC().Add(time.Second).Format(time.DateOnly+"T"+time.TimeOnly))
	}
	return v.to("/destinations/" + id.String() + "/backfill?" + window.Encode()), nil
}

// recoverDestination answers POST /console/destinations/{id}/recover.
func (c *Console) recoverDestination(v *visit) (string, error) {
	id := v.id("id")
	done, err := c.Commands.RecoverDestination(v.Context(), v.caller(), command.RecoverDestination{Destination: id})
	return c.changed(v, done.Position, err, v.destinationPath(id, "recovering"), deliveries.ReadModel.Name)
}

// disable answers POST /console/destinations/{id}/disable.
func (c *Console) disable(v *visit) (string, error) { return c.switchTo(v, false, "disabled") }

func (c *Console) switchTo(v *visit, enabled bool, done string) (string, error) {
	id := v.id("id")
	changed, err := c.Commands.ReviseDestination(v.Context(), v.caller(), command.ReviseDestination{
		ID:      id,
		Enabled: &enabled,
	})
	return c.changed(v, changed.Position, err, v.destinationPath(id, done), ofDestination...)
}

// deleteDestination answers POST /console/destinations/{id}/delete.
func (c *Console) deleteDestination(v *visit) (string, error) {
	id := v.id("id")
	deleted, err := c.Commands.DeleteDestination(v.Context(), v.caller(), command.DeleteDestination{ID: id})
	return c.changed(v, deleted.Position, err, v.to("/destinations?done=deleted"),
		slices.Concat(ofDestination, []string{subscriptions.ReadModel.Name, deliveries.ReadModel.Name})...)
}

// check is the result of a request to a destination.
type check struct {
	Destination query.Destination
	Tested      *webhook.Result
	Validated   *webhook.Reachability
}

// test answers POST /console/destinations/{id}/test.
func (c *Console) test(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	if err := c.Limiter.Take(v.Context(), v.organization()); err != nil {
		return screen{}, err
	}
	tested, err := c.Tester.Send(v.Context(), wire.TargetOf(found))
	return screen{
		Title:    "Test of " + found.Name,
		Template: "check",
		Data:     check{Destination: found, Tested: &tested.Result},
	}, err
}

// validate answers POST /console/destinations/{id}/validate.
func (c *Console) validate(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	if err := c.Limiter.Take(v.Context(), v.organization()); err != nil {
		return screen{}, err
	}
	url, err := c.address(v.Context(), found)
	if err != nil {
		return screen{}, err
	}
	reached, err := c.Commands.ValidateConfig(v.Context(), v.caller(), command.ValidateConfig{URL: url})
	return screen{
		Title:    "Reaching " + found.Name,
		Template: "check",
		Data:     check{Destination: found, Validated: &reached},
	}, err
}

// paging is a position in a list.
type paging struct {
	Number, Total int
	address       url.URL
	size          int // of a page; 0 means pageSize
}

func pagingOf(u *url.URL) paging {
	number, err := strconv.Atoi(u.Query().Get("page"))
	if err != nil || number < 1 || number > 1_000_000 {
		number = 1
	}
	return paging{Number: number, address: *u}
}

func (p paging) offset() int { return (p.Number - 1) * pageSize }

// Of returns the number of pages.
func (p paging) Of() int {
	size := cmp.Or(p.size, pageSize)
	return max(1, (p.Total+size-1)/size)
}

// To returns the address of another page of the same list.
func (p paging) To(number int) string {
	values := p.address.Query()
	values.Set("page", strconv.Itoa(number))
	values.Del("done")
	return p.address.Path + "?" + values.Encode()
}

// Previous returns the number of the previous page.
func (p paging) Previous() int { return p.Number - 1 }

// Next returns the number of the next page.
func (p paging) Next() int { return p.Number + 1 }
