package console

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections/subscriptions"
	"carillon/query"
)

// maxForm is the maximum size of a form in bytes, equal to that of a body of the API.
const maxForm = 64 << 10

func (c *Console) settingsRoutes(r chi.Router) {
	r.Get("/destinations/new", c.page(c.showNew))
	r.Post("/destinations/new", form(c, readSettings, c.create))
	r.Get("/destinations/{id}/edit", c.page(c.showEdit))
	r.Post("/destinations/{id}/edit", form(c, readSettings, c.edit))
}

// settings are the settings of a destination, as in a form.
type settings struct {
	remarks

	Name, URL, Headers, Debounce, Limit, ExternalID string

	Traceparent bool
	Events      *eventChoice // its event types, if it is new

	// Seen is the state for which the form was opened: the organization if the destination is new, otherwise its
	// revision.
	Seen    string
	New     bool
	Back    string
	Changes []query.AuditEntry // since the form was opened
	chosen  subscription.Settings
}

// Notices lists what is sent to the address, if it is the one for notices.
func (s settings) Notices() (sent []catalog.Notice) {
	if s.ExternalID != destination.NoticesExternalID {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(catalog.Notices), func(n catalog.Notice) bool { return n.Operators })
}

// changed returns the current values that differ from the typed ones, by input.
func (s settings) changed(now settings) map[string]string {
	typedHeaders := s.Headers
	if headers, err := readHeaders(s.Headers); err == nil {
		typedHeaders = writeHeaders(headers)
	}
	return differing(map[string][2]string{
		"name":        {s.Name, now.Name},
		"url":         {s.URL, now.URL},
		"headers":     {typedHeaders, now.Headers},
		"debounce":    {s.Debounce, now.Debounce},
		"limit":       {s.Limit, now.Limit},
		"externalId":  {s.ExternalID, now.ExternalID},
		"traceparent": {onOff[s.Traceparent], onOff[now.Traceparent]},
	})
}

// differing returns the second of each two values that differ.
func differing(values map[string][2]string) map[string]string {
	now := map[string]string{}
	for input, v := range values {
		if v[0] != v[1] {
			now[input] = cmp.Or(v[1], isNone)
		}
	}
	return now
}

// checkOrganization refuses a form that was opened for another organization than the current session's, which may
// have been started in another tab since. Sending it again confirms it.
func checkOrganization(v *visit, seen *string) error {
	now := v.organization().String()
	if *seen == "" || *seen == now {
		return nil
	}
	*seen = now
	return wire.Fail(wire.Conflict, "", openedForOthers, v.name)
}

func readSettings(v *visit) (*settings, error) {
	return &settings{
		Name:        v.PostFormValue("name"),
		URL:         strings.TrimSpace(v.PostFormValue("url")),
		Headers:     v.PostFormValue("headers"),
		Debounce:    v.PostFormValue("debounce"),
		Limit:       v.PostFormValue("limit"),
		ExternalID:  v.PostFormValue("externalId"),
		Traceparent: v.PostFormValue("traceparent") != "",
		Seen:        v.PostFormValue("seen"),
		Back:        v.to("/destinations"),
		chosen:      readChoice(v.PostForm),
	}, nil
}

func (s settings) screen() screen {
	title := "Edit " + s.Name
	if s.New {
		title = "New destination"
	}
	return screen{Title: title, Template: "settings", Data: s}
}

// showNew answers GET /console/destinations/new.
func (c *Console) showNew(v *visit) (screen, error) {
	typed := settings{
		New:      true,
		Seen:     v.organization().String(),
		Debounce: "0",
		Back:     v.to("/destinations"),
	}
	if v.URL.Query().Has("notices") {
		typed.Name, typed.ExternalID = "Notices", destination.NoticesExternalID
		return typed.screen(), nil
	}
	events, err := c.choiceOf(v, typed.chosen)
	typed.Events = &events
	return typed.screen(), err
}

// create answers POST /console/destinations/new.
func (c *Console) create(v *visit, typed *settings) (string, error) {
	typed.New = true
	next, err := c.createWith(v, typed)
	if err != nil {
		events, choiceErr := c.choiceOf(v, typed.chosen)
		typed.Events, err = &events, cmp.Or(choiceErr, err)
	}
	return next, err
}

// createWith creates a destination and, if its form chooses events, a subscription.
func (c *Console) createWith(v *visit, typed *settings) (string, error) {
	if err := checkOrganization(v, &typed.Seen); err != nil {
		return "", err
	}
	in, err := typed.read()
	subscribes := len(typed.chosen.EventTypes) > 0
	if subscribes {
		err = errors.Join(err, checkChosen(typed.chosen), c.Commands.CheckSubscription(v.Context(), v.caller(), typed.chosen))
	}
	if err != nil {
		return "", errors.Join(err, c.Commands.CheckDestination(v.Context(), in))
	}
	made, err := c.Commands.CreateDestination(v.Context(), v.caller(), in)
	if err != nil {
		return "", err
	}
	c.See(v.Context(), made.Position, ofDestination...)
	next := v.to("/destinations/" + made.ID.String() + "/start?done=created")
	if subscribes {
		subscribed, err := c.Commands.CreateSubscription(v.Context(), v.caller(), command.CreateSubscription{
			Destination: made.ID,
			Settings:    typed.chosen,
		})
		if err != nil {
			c.Log.WarnContext(v.Context(), "subscription of a new destination refused", "error", err)
			next = v.destinationPath(made.ID, "created-only") + "#subscriptions"
		}
		c.See(v.Context(), subscribed.Position, subscriptions.ReadModel.Name, delivery.DispatcherName)
	}
	return next, nil
}

// showEdit answers GET /console/destinations/{id}/edit.
func (c *Console) showEdit(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	shown, err := c.settingsOf(v, found)
	return shown.screen(), err
}

// settingsOf returns the settings of a destination. Full values in them are recorded as disclosed.
func (c *Console) settingsOf(v *visit, found query.Destination) (settings, error) {
	url, err := c.address(v.Context(), found)
	if err != nil && !errors.Is(err, errUnavailable) { // otherwise it must be entered again
		return settings{}, err
	}
	typed := settings{
		Name:        found.Name,
		URL:         url,
		Debounce:    strconv.Itoa(found.DebounceWindowSeconds),
		Limit:       writeLimit(float64(found.MaxRequestsPerSecond)),
		ExternalID:  found.ExternalID,
		Traceparent: found.Traceparent,
		Seen:        strconv.FormatInt(found.Revision, 10),
		Back:        v.destinationPath(found.ID, ""),
	}
	var shown []disclosure.Part
	if destination.Hides(url) {
		shown = append(shown, disclosure.Address)
	}
	if len(found.Headers.Data) > 0 {
		shown = append(shown, disclosure.Headers)
		plain, err := c.open(v.Context(), found.ID, sealing.Headers, found.Headers.Data)
		if err != nil {
			return settings{}, err
		}
		headers := map[string]string{}
		if err := json.Unmarshal(plain, &headers); err != nil {
			return settings{}, err
		}
		typed.Headers = writeHeaders(headers)
	}
	return typed, c.disclose(v, found.ID, shown...)
}

// edit answers POST /console/destinations/{id}/edit.
func (c *Console) edit(v *visit, typed *settings) (string, error) {
	id := v.id("id")
	typed.Back = v.destinationPath(id, "")
	all, err := typed.read()
	if err != nil {
		return "", errors.Join(err, c.Commands.CheckDestination(v.Context(), all))
	}
	in := command.ReviseDestination{
		ID:                  id,
		DestinationSettings: all.DestinationSettings,
		Sets:                destination.FieldsAll,
	}
	if typed.ExternalID == "" {
		in.Sets &^= destination.FieldExternalID
	}
	if typed.Seen != "" {
		in.Expected = new(typed.seenRevision())
	}
	changed, err := c.Commands.ReviseDestination(v.Context(), v.caller(), in)
	if err != nil && !errors.Is(err, destination.ErrRevisedSince) {
		return "", err
	}
	c.See(v.Context(), changed.Position, ofDestination...)
	if err != nil {
		return "", c.showChanges(v, typed, err)
	}
	return v.destinationPath(id, "saved"), nil
}

// seenRevision is the revision for which the form was opened, or an impossible one if it is not a number.
func (s settings) seenRevision() eventstore.Revision {
	seen, err := strconv.ParseInt(s.Seen, 10, 64)
	if err != nil {
		return eventstore.NoStream
	}
	return eventstore.Revision(seen)
}

// showChanges adds the changes since the form was opened. Sending it again confirms it.
func (c *Console) showChanges(v *visit, typed *settings, cause error) error {
	found, err := c.destination(v)
	if err != nil {
		return err
	}
	now, err := c.settingsOf(v, found)
	if err != nil {
		return err
	}
	err = c.Queries.AuditEntries(v.Context(), found.ID, int64(typed.seenRevision())+1, func(e query.AuditEntry) error {
		if e.Detail.URL != "" { // a change of settings
			typed.Changes = append(typed.Changes, e)
		}
		return nil
	})
	typed.Now, typed.Seen = typed.changed(now), now.Seen
	return cmp.Or(err, error(&wire.Failure{Kind: wire.Conflict, Issue: changedMeanwhile, Cause: cause}))
}

// read parses the texts of a form, and joins the refusals of those that can't be parsed. The command checks the values.
func (s settings) read() (in command.CreateDestination, err error) {
	in.ExternalID, in.Name, in.URL, in.Traceparent = s.ExternalID, s.Name, s.URL, s.Traceparent
	var wrong []error
	if destination.IsMasked(s.URL) {
		wrong = append(wrong, wire.Fail(wire.Invalid, "config.url", maskedAddress))
	}
	if in.Headers, err = readHeaders(s.Headers); err != nil {
		wrong = append(wrong, err)
	}
	if in.DebounceWindowSeconds, err = strconv.Atoi(strings.TrimSpace(s.Debounce)); err != nil {
		wrong = append(wrong, wire.Fail(wire.Invalid, "debounceWindowSeconds", "must be a number of seconds, 0 for none"))
	}
	if limit := strings.TrimSpace(s.Limit); limit != "" {
		rate, err := strconv.ParseFloat(limit, 64)
		in.MaxRequestsPerSecond = destination.Rate(rate)
		if err != nil || rate == 0 || math.IsNaN(rate) {
			in.MaxRequestsPerSecond = 0
			wrong = append(wrong, wire.Fail(wire.BadBody, "maxRequestsPerSecond", "must be a number"))
		}
	}
	return in, errors.Join(wrong...)
}

// writeLimit is the reverse of reading a limit.
func writeLimit(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'f', -1, 64)
}

// readHeaders parses one header a line.
func readHeaders(typed string) (map[string]string, error) {
	headers := map[string]string{}
	for line := range strings.Lines(typed) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !found || name == "" {
			return nil, wire.Fail(wire.Invalid, "config.headers", "must be a header a line, such as X-Tenant: town-hall")
		}
		if _, twice := headers[name]; twice {
			return nil, wire.Fail(wire.Invalid, "config.headers", "must name each header once: %s is there twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}

func writeHeaders(headers map[string]string) string {
	lines := make([]string, 0, len(headers))
	for name, value := range headers {
		lines = append(lines, name+": "+value)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
