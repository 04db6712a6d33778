package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery"
	"carillon/query"
)

// checkRoutes are those by which a caller tries an endpoint. They share one limit, because each makes the service send
// a request to an address of the caller's choice.
func (a *API) checkRoutes(r chi.Router) {
	r.Post("/events/destinations/validate", wire.Events.Handle(a.validateConfig))
	r.Post("/events/destinations/{ref}/test", wire.Events.Handle(a.testDestination))
}

type validateBody struct {
	Transport wire.Optional[string]     `json:"transport"`
	Config    wire.Optional[configBody] `json:"config"`
}

// Check implements wire.Body.
func (b *validateBody) Check(c *wire.Checks) {
	checkTransport(c, b.Transport)
	if c.Require("config", b.Config.Set) {
		c.Name("config.url", b.Config.Value.URL, 1, 0)
	}
}

func (a *API) validateConfig(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[validateBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := a.Limiter.Take(r.Context(), callerOf(r).Organization); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.Commands.ValidateConfig(r.Context(), body.Config.Value.URL.Value, body.Config.Value.Headers.Value)
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(validationOf(found)), nil
}

type testedJSON struct {
	Delivered      bool      `json:"delivered"`
	StatusCode     *int      `json:"statusCode"`
	ResponseTimeMs int64     `json:"responseTimeMs"`
	Error          *string   `json:"error"`
	WebhookID      uuid.UUID `json:"webhookId"`
	Event          struct {
		Type string    `json:"type"`
		ID   uuid.UUID `json:"id"`
		Time time.Time `json:"time"`
	} `json:"event"`
}

func (a *API) testDestination(r *http.Request) (wire.Reply, error) {
	if _, err := reference(r, "ref"); err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	if err := a.Limiter.Take(r.Context(), callerOf(r).Organization); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	tested, err := a.Tester.Send(r.Context(), targetOf(found))
	if errors.Is(err, command.ErrForgotten) { // deleted right now
		return wire.Reply{}, named(query.ErrNotFound, "destination")
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(testedOf(tested)), nil
}

func testedOf(t delivery.Tested) testedJSON {
	j := testedJSON{
		Delivered: t.Result.OK(), ResponseTimeMs: t.Result.Duration.Milliseconds(), Error: text(t.Result.ErrorMessage), WebhookID: t.WebhookID,
	}
	if t.Result.StatusCode != 0 {
		j.StatusCode = &t.Result.StatusCode
	}
	j.Event.Type, j.Event.ID, j.Event.Time = catalog.DeliveryTest, t.EventID, t.Time
	return j
}

// targetOf is a destination as its requests need it. One that is disabled can be tested: that is how its owner finds
// out whether the fault is mended.
func targetOf(d query.Destination) *delivery.Target {
	target := &delivery.Target{
		ID: d.ID, Organization: d.Organization, Enabled: d.Status == statusEnabled, URL: d.URL, Headers: d.Headers,
		DebounceSeconds: d.DebounceWindowSeconds,
	}
	for _, secret := range d.Secrets {
		sealed := delivery.SealedSecret{ID: secret.ID, Sealed: secret.Sealed}
		if secret.ExpiresAt != nil {
			sealed.ExpiresAt = *secret.ExpiresAt
		}
		target.Secrets = append(target.Secrets, sealed)
	}
	return target
}
