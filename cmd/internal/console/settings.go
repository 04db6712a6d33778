package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/query"
)

// maxForm is the maximum size of a form in bytes, equal to that of a body of the API.
const maxForm = 64 << 10

func (c *Console) settingsRoutes(r chi.Router) {
	r.Get("/destinations/new", c.page(c.showNew))
	r.Post("/destinations/new", c.form(c.create))
	r.Get("/destinations/{id}/edit", c.page(c.showEdit))
	r.Post("/destinations/{id}/edit", c.form(c.edit))
}

// settings are the settings of a destination, as in a form.
type settings struct {
	Name, URL, Headers, Debounce, ExternalID string

	// Seen is the state for which the form was opened: the organization if the destination is new, otherwise its
	// revision.
	Seen    string
	New     bool
	Back    string
	Refusal string
	Now     *settings          // the current ones, if they changed since the form was opened
	Changes []query.AuditEntry // the changes since then
}

// IsNow returns the current value of a field that changed since the form was opened, if it differs from the typed
// one.
func (s settings) IsNow(field string) string {
	if s.Now == nil {
		return ""
	}
	fields := map[string][2]string{
		"name": {s.Name, s.Now.Name}, "url": {s.URL, s.Now.URL}, "headers": {s.Headers, s.Now.Headers},
		"debounce": {s.Debounce, s.Now.Debounce}, "externalId": {s.ExternalID, s.Now.ExternalID},
	}
	if headers, err := readHeaders(s.Headers); err == nil {
		fields["headers"] = [2]string{writeHeaders(headers), s.Now.Headers}
	}
	return isNow(fields[field][0], fields[field][1])
}

func isNow(typed, now string) string {
	if typed == now {
		return ""
	}
	return cmp.Or(now, isNone)
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

// form serves a form: a refusal is shown above the values typed, which stay.
func (c *Console) form(submit func(*visit, *settings) (next string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		typed := settings{
			Name:       r.PostFormValue("name"),
			URL:        strings.TrimSpace(r.PostFormValue("url")),
			Headers:    r.PostFormValue("headers"),
			Debounce:   r.PostFormValue("debounce"),
			ExternalID: r.PostFormValue("externalId"),
			Seen:       r.PostFormValue("seen"),
			Back:       v.to("/destinations"),
		}
		next, err := submit(v, &typed)
		c.submitted(w, r, next, err, func(refusal string) screen {
			typed.Refusal = refusal
			return screen{Title: typed.title(), Template: "settings", Data: typed}
		})
	}
}

// submitted answers a form: it redirects to an address or, if a value is refused, shows the form again.
func (c *Console) submitted(w http.ResponseWriter, r *http.Request, next string, err error,
	again func(refusal string) screen) {
	if err == nil {
		http.Redirect(w, r, next, http.StatusSeeOther)
		return
	}
	failure := wire.FailureOf(err)
	if failure.Kind != wire.BadBody && failure.Kind != wire.Invalid && failure.Kind != wire.Exists &&
		failure.Kind != wire.Conflict {
		c.fail(w, r, err)
		return
	}
	wire.NoteFailure(r.Context(), failure)
	shown := again(upperFirst(failure.Error()) + ".")
	shown.Status = failure.Status()
	c.render(w, r, shown)
}

func (s settings) title() string {
	if s.New {
		return "New destination"
	}
	return "Edit " + s.Name
}

// showNew answers GET /console/destinations/new.
func (c *Console) showNew(v *visit) (screen, error) {
	typed := settings{
		New:      true,
		Seen:     v.organization().String(),
		Debounce: "0",
		Back:     v.to("/destinations"),
	}
	return screen{Title: typed.title(), Template: "settings", Data: typed}, nil
}

// create answers POST /console/destinations/new.
func (c *Console) create(v *visit, typed *settings) (string, error) {
	typed.New = true
	if err := checkOrganization(v, &typed.Seen); err != nil {
		return "", err
	}
	headers, debounce, err := typed.read()
	if err != nil {
		return "", err
	}
	made, err := c.Commands.CreateDestination(v.Context(), v.caller(), command.CreateDestination{
		ExternalID:            typed.ExternalID,
		Name:                  typed.Name,
		URL:                   typed.URL,
		Headers:               headers,
		DebounceWindowSeconds: debounce,
	})
	if err != nil {
		return "", err
	}
	c.awaitDestination(v.Context(), made.Position)
	return v.destinationPath(made.ID, "created"), nil
}

// showEdit answers GET /console/destinations/{id}/edit.
func (c *Console) showEdit(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	shown, err := c.settingsOf(v, found)
	return screen{Title: shown.title(), Template: "settings", Data: shown}, err
}

// settingsOf returns the settings of a destination. Full values in them are recorded as disclosed.
func (c *Console) settingsOf(v *visit, found query.Destination) (settings, error) {
	url, err := c.address(v.Context(), found)
	if err != nil && !errors.Is(err, errUnavailable) { // otherwise it must be entered again
		return settings{}, err
	}
	typed := settings{
		Name:       found.Name,
		URL:        url,
		Debounce:   strconv.Itoa(found.DebounceWindowSeconds),
		ExternalID: found.ExternalID,
		Seen:       strconv.FormatInt(found.Revision, 10),
		Back:       v.destinationPath(found.ID, ""),
	}
	var shown []disclosure.Part
	if destination.Hides(url) {
		shown = append(shown, disclosure.Address)
	}
	if len(found.Headers) > 0 {
		shown = append(shown, disclosure.Headers)
		plain, err := c.open(v.Context(), found.ID, sealing.Headers, found.Headers)
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
	id, err := v.id("id")
	if err != nil {
		return "", err
	}
	typed.Back = v.destinationPath(id, "")
	headers, debounce, err := typed.read()
	if err != nil {
		return "", err
	}
	in := command.ReviseDestination{
		ID:                    id,
		Name:                  &typed.Name,
		URL:                   &typed.URL,
		Headers:               &headers,
		DebounceWindowSeconds: &debounce,
	}
	if typed.ExternalID != "" {
		in.ExternalID = &typed.ExternalID
	}
	if typed.Seen != "" {
		in.Expected = new(typed.seenRevision())
	}
	changed, err := c.Commands.ReviseDestination(v.Context(), v.caller(), in)
	if err != nil && !errors.Is(err, destination.ErrRevisedSince) {
		return "", err
	}
	c.awaitDestination(v.Context(), changed.Position)
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
	typed.Now, typed.Seen = &now, now.Seen
	return cmp.Or(err, error(&wire.Failure{Kind: wire.Conflict, Issue: changedMeanwhile, Cause: cause}))
}

// read parses the texts of a form. The command checks the values.
func (s settings) read() (headers map[string]string, debounce int, err error) {
	if headers, err = readHeaders(s.Headers); err != nil {
		return nil, 0, err
	}
	debounce, err = strconv.Atoi(strings.TrimSpace(s.Debounce))
	if err != nil {
		return nil, 0, wire.Fail(wire.Invalid, "debounce window", "must be a number of seconds, 0 for none")
	}
	return headers, debounce, nil
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
			return nil, wire.Fail(wire.Invalid, "headers", "must be a header a line, such as X-Tenant: town-hall")
		}
		if _, twice := headers[name]; twice {
			return nil, wire.Fail(wire.Invalid, "headers", "must name each header once: %s is there twice", name)
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
