package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/query"
)

func (a *API) destinationRoutes(r chi.Router) {
	r.Post("/events/destinations", wire.Events.Handle(a.createDestination))
	r.Get("/events/destinations", wire.Events.Handle(a.listDestinations))
	r.Get("/events/destinations/{ref}", wire.Events.Handle(a.getDestination))
	r.Put("/events/destinations/{ref}", wire.Events.Handle(a.putDestination))
	r.Patch("/events/destinations/{ref}", wire.Events.Handle(a.patchDestination))
	r.Delete("/events/destinations/{ref}", wire.Events.Handle(a.deleteDestination))
}

const (
	usualPage = 50 // of the lists under /events
	mostPage  = 100

	transportWebhook = "webhook"

	externalIDRule = "1 to 255 characters from A-Z a-z 0-9 . _ : - and not . or .. alone"
)

// configBody is a destination's config as sent.
type configBody struct {
	URL     wire.Optional[string]            `json:"url"`
	Headers wire.Optional[map[string]string] `json:"headers"`
}

// check refuses what no route takes. Addresses and headers are the command's.
func (b *configBody) check(c *wire.Checks) {
	if b.URL.Set {
		c.Text("config.url", b.URL.Value, 1, 0)
	}
}

// settingsBody is all that a destination can be told to be: the body of PUT, whose path has the externalId.
type settingsBody struct {
	Name                  wire.Optional[string]     `json:"name"`
	Transport             wire.Optional[string]     `json:"transport"`
	Config                wire.Optional[configBody] `json:"config"`
	DebounceWindowSeconds wire.Optional[int]        `json:"debounceWindowSeconds"`
}

// Check implements wire.Body. Lengths, ranges and rules are the command's.
func (b *settingsBody) Check(c *wire.Checks) {
	c.Name("name", b.Name, 1, 0)
	checkTransport(c, b.Transport)
	if c.Require("config", b.Config.Set) {
		c.Name("config.url", b.Config.Value.URL, 1, 0)
	}
}

func checkTransport(c *wire.Checks, transport wire.Optional[string]) {
	if transport.Set {
		c.OneOf("transport", transport.Value, transportWebhook)
	}
}

func (b *settingsBody) input(externalID string) command.DestinationInput {
	return command.DestinationInput{
		ExternalID: externalID, Name: b.Name.Value, URL: b.Config.Value.URL.Value,
		Headers: b.Config.Value.Headers.Value, DebounceWindowSeconds: b.DebounceWindowSeconds.Value,
	}
}

// createDestinationBody is a new destination as sent.
type createDestinationBody struct {
	settingsBody `json:",inline"`
	ExternalID   wire.Optional[string] `json:"externalId"`
}

// Check implements wire.Body.
func (b *createDestinationBody) Check(c *wire.Checks) {
	b.settingsBody.Check(c)
	if b.ExternalID.Set {
		c.Text("externalId", b.ExternalID.Value, 1, 0)
	}
}

func (a *API) createDestination(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[createDestinationBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	created, at, err := a.Commands.CreateDestination(r.Context(), callerOf(r), body.input(body.ExternalID.Value))
	if err != nil {
		return wire.Reply{}, err
	}
	return a.createdDestination(r, created, at)
}

// createdDestination is the answer to a destination that is new, the only one with its first secret in full.
func (a *API) createdDestination(r *http.Request, created command.CreatedDestination, at eventstore.Position) (wire.Reply, error) {
	shown, err := a.changedDestination(r, created.ID, at, fullSecrets)
	return wire.Created(createdDestinationJSON{shown, validationOf(created.Validation)}), err
}

// changedDestination shows a destination as a write has left it.
func (a *API) changedDestination(r *http.Request, id uuid.UUID, at eventstore.Position, show secretView) (destinationJSON, error) {
	there := a.awaitRouting(r.Context(), at, "destinations")
	found, err := a.Queries.Destination(r.Context(), callerOf(r).Organization, id.String(), a.Now())
	if err != nil {
		return destinationJSON{}, unshown(err, there, "destination")
	}
	return a.destinationOf(r.Context(), found, show)
}

// unshown says why what was recorded can't be shown: the read model is not there yet, although it was waited for; or it
// is, and somebody deleted the thing right after the change.
func unshown(err error, there bool, what string) error {
	if errors.Is(err, query.ErrNotFound) && !there {
		return &wire.Failure{Kind: wire.Unavailable, Issue: "it was recorded, and can't be shown yet: list it in a moment", Cause: err}
	}
	return named(err, what)
}

func (a *API) listDestinations(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "limit", "offset")
	limit, offset := q.Page(usualPage, mostPage)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	destinations, total, err := a.Queries.Destinations(r.Context(), callerOf(r).Organization, a.Now(), limit, offset)
	if err != nil {
		return wire.Reply{}, err
	}
	list := make([]destinationJSON, 0, len(destinations))
	for _, destination := range destinations {
		shown, err := a.destinationOf(r.Context(), destination, maskedSecrets)
		switch {
		case errors.Is(err, query.ErrNotFound): // deleted right now
			total--
		case err != nil:
			return wire.Reply{}, err
		default:
			list = append(list, shown)
		}
	}
	return wire.OK(wire.PageOf(list, total, limit, offset)), nil
}

func (a *API) getDestination(r *http.Request) (wire.Reply, error) {
	if err := wire.Events.ParseQuery(r).Err(); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.destinationOf(r.Context(), found, maskedSecrets)
	return wire.OK(shown), err
}

// destination finds the one that the path's {ref} names.
func (a *API) destination(r *http.Request) (query.Destination, error) {
	ref, err := reference(r, "ref")
	if err != nil {
		return query.Destination{}, err
	}
	found, err := a.Queries.Destination(r.Context(), callerOf(r).Organization, ref, a.Now())
	return found, named(err, "destination")
}

// reference reads a path segment that is a UUID or an externalId.
func reference(r *http.Request, name string) (string, error) {
	ref, err := wire.PathText(r, name)
	if err != nil {
		return "", err
	}
	if command.UUIDShaped(ref) {
		return ref, nil
	}
	var refusal *command.Refusal
	if err := command.CheckExternalID(name, ref); errors.As(err, &refusal) {
		return "", wire.Fail(wire.BadParam, name, "must be a UUID or an externalId: "+externalIDRule)
	}
	return ref, nil
}

type destinationJSON struct {
	ID         uuid.UUID `json:"id"`
	ExternalID *string   `json:"externalId"`
	Name       string    `json:"name"`
	Transport  string    `json:"transport"`
	Config     struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	} `json:"config"`
	DebounceWindowSeconds int          `json:"debounceWindowSeconds"`
	Status                string       `json:"status"`
	StatusReason          *string      `json:"statusReason"`
	ConsecutiveFailures   int          `json:"consecutiveFailures"`
	LastSuccessAt         *time.Time   `json:"lastSuccessAt"`
	LastFailureAt         *time.Time   `json:"lastFailureAt"`
	LastErrorMessage      *string      `json:"lastErrorMessage"`
	Secrets               []secretJSON `json:"secrets"`
	CreatedAt             time.Time    `json:"createdAt"`
	UpdatedAt             time.Time    `json:"updatedAt"`
}

type createdDestinationJSON struct {
	destinationJSON `json:",inline"`
	Validation      validationJSON `json:"validation"`
}

type validationJSON struct {
	Reachable      bool  `json:"reachable"`
	StatusCode     *int  `json:"statusCode"`
	ResponseTimeMs int64 `json:"responseTimeMs"`
}

func validationOf(r webhook.Reachability) validationJSON {
	v := validationJSON{Reachable: r.Reachable, ResponseTimeMs: r.ResponseTimeMs()}
	if r.StatusCode != 0 {
		v.StatusCode = &r.StatusCode
	}
	return v
}

func (a *API) destinationOf(ctx context.Context, d query.Destination, show secretView) (destinationJSON, error) {
	j := destinationJSON{
		ID: d.ID, ExternalID: text(d.ExternalID), Name: d.Name, Transport: transportWebhook,
		DebounceWindowSeconds: d.DebounceWindowSeconds, Status: d.Status, StatusReason: d.StatusReason,
		ConsecutiveFailures: d.Health.ConsecutiveFailures, LastSuccessAt: utc(d.Health.LastSuccessAt),
		LastFailureAt: utc(d.Health.LastFailureAt), LastErrorMessage: d.Health.LastErrorMessage,
		CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
	j.Config.URL, j.Config.Headers = d.URL, map[string]string{}
	if len(d.Headers) > 0 {
		plain, err := a.open(ctx, d.ID, d.Headers)
		if err != nil {
			return j, err
		}
		if err := json.Unmarshal(plain, &j.Config.Headers); err != nil {
			return j, err
		}
	}
	var err error
	j.Secrets, err = a.secretsOf(ctx, d.ID, d.Secrets, show)
	return j, err
}

// open unseals a value. That its key is gone means that the destination is being deleted right now.
func (a *API) open(ctx context.Context, destination uuid.UUID, sealed []byte) ([]byte, error) {
	plain, err := a.Commands.Vault.Open(ctx, destination, sealed)
	if errors.Is(err, command.ErrForgotten) {
		return nil, named(query.ErrNotFound, "destination")
	}
	return plain, err
}
