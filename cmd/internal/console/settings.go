package console

import (
	"cmp"
	"errors"
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
	"carillon/command/delivery/dispatching"
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

	Typed  map[string]string // by input
	Events *eventChoice      // its event types, if it is new

	// Seen is the state for which the form was opened: the organization if the destination is new, otherwise its
	// revision.
	Seen    string
	New     bool
	Back    string
	Changes []query.AuditEntry // since the form was opened
	chosen  subscription.Settings
}

// noticesTo lists the notices that a destination gets without a subscription: none but the address for them does.
func noticesTo(externalID string) []catalog.Notice {
	if externalID != destination.NoticesExternalID {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(catalog.Notices), func(n catalog.Notice) bool { return n.Operators })
}

// differing returns the current values that differ from the typed ones, by input.
func differing(typed, now map[string]string) map[string]string {
	differ := map[string]string{}
	for input, value := range now {
		if value != typed[input] {
			differ[input] = cmp.Or(value, isNone)
		}
	}
	return differ
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
	typed := map[string]string{}
	for _, d := range destination.Fields {
		typed[d.Label] = v.PostFormValue(d.Label)
	}
	return &settings{
		Typed:  typed,
		Seen:   v.PostFormValue("seen"),
		Back:   v.to("/destinations"),
		chosen: readChoice(v.PostForm),
	}, nil
}

// typedOf is the reverse of reading a form.
func typedOf(of command.DestinationSettings) map[string]string {
	typed := map[string]string{"headers": writeHeaders(of.Headers)}
	for _, d := range destination.Fields {
		if d.Typed != nil {
			typed[d.Label] = d.Typed(of.Settings)
		}
	}
	return typed
}

// Plain returns the settings whose inputs are alike.
func (settings) Plain() []destination.Declared {
	return slices.DeleteFunc(slices.Clone(destination.Fields), func(d destination.Declared) bool {
		return !destination.FieldsPlain.Has(d.Field)
	})
}

// Folded reports whether the settings that few need are folded: none is set, and nothing is said about the form.
func (s settings) Folded() bool {
	none := typedOf(command.DestinationSettings{})
	for _, d := range destination.Fields {
		if d.Label != "name" && d.Label != "url" && s.Typed[d.Label] != none[d.Label] {
			return false
		}
	}
	return len(s.Above)+len(s.Wrong)+len(s.Now) == 0
}

func (s settings) screen() screen {
	title := "Edit " + s.Typed["name"]
	if s.New {
		title = "New destination"
	}
	return screen{Title: title, Template: "settings", Data: s}
}

// showNew answers GET /console/destinations/new.
func (c *Console) showNew(v *visit) (screen, error) {
	typed := settings{
		Typed: typedOf(command.DestinationSettings{}),
		New:   true,
		Seen:  v.organization().String(),
		Back:  v.to("/destinations"),
	}
	if v.URL.Query().Has("notices") {
		typed.Typed["name"], typed.Typed["externalId"] = "Notices", destination.NoticesExternalID
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
		c.See(v.Context(), subscribed.Position, subscriptions.ReadModel.Name, dispatching.Name)
	}
	return next, nil
}

// showEdit answers GET /console/destinations/{id}/edit.
func (c *Console) showEdit(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	given, err := c.settingsOf(v, found)
	return settings{
		Typed: typedOf(given),
		Seen:  strconv.FormatInt(found.Revision, 10),
		Back:  v.destinationPath(found.ID, ""),
	}.screen(), err
}

// settingsOf returns the settings of a destination. Full values in them are recorded as disclosed.
func (c *Console) settingsOf(v *visit, found query.Destination) (given command.DestinationSettings, err error) {
	given.Settings = found.Settings
	given.URL, err = c.address(v.Context(), found)
	if err != nil && !errors.Is(err, errUnavailable) { // otherwise it must be entered again
		return given, err
	}
	var shown []disclosure.Part
	if destination.Hides(given.URL) {
		shown = append(shown, disclosure.Address)
	}
	if len(found.Headers.Data) > 0 {
		shown = append(shown, disclosure.Headers)
		plain, err := c.open(v.Context(), found.ID, sealing.Headers, found.Headers.Data)
		if err != nil {
			return given, err
		}
		if err := json.Unmarshal(plain, &given.Headers); err != nil {
			return given, err
		}
	}
	return given, c.disclose(v, found.ID, shown...)
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
	if all.ExternalID == "" {
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
		return "", c.showChanges(v, typed, all, err)
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
func (c *Console) showChanges(v *visit, typed *settings, given command.CreateDestination, cause error) error {
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
	typed.Now = differing(typedOf(given.DestinationSettings), typedOf(now))
	typed.Seen = strconv.FormatInt(found.Revision, 10)
	return cmp.Or(err, error(&wire.Failure{Kind: wire.Conflict, Issue: changedMeanwhile, Cause: cause}))
}

// read parses the texts of a form, and joins the refusals of those that can't be parsed. The command checks the values.
func (s settings) read() (in command.CreateDestination, err error) {
	var wrong []error
	for _, d := range destination.Fields {
		if d.Read == nil {
			continue
		}
		if fault := d.Read(&in.Settings, s.Typed[d.Label]); fault != "" {
			wrong = append(wrong, wire.Fail(wire.BadBody, d.Name, "%s", fault))
		}
	}
	if in.URL = strings.TrimSpace(in.URL); destination.IsMasked(in.URL) {
		wrong = append(wrong, wire.Fail(wire.Invalid, "config.url", maskedAddress))
	}
	if in.Headers, err = readHeaders(s.Typed["headers"]); err != nil {
		wrong = append(wrong, err)
	}
	return in, errors.Join(wrong...)
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
