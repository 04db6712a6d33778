package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/projections/destinations"
	"carillon/query"
)

func (a *API) secretRoutes(r chi.Router) {
	r.Get("/events/destinations/{ref}/secrets", wire.Events.Handle(a.listSecrets))
	r.Post("/events/destinations/{ref}/secrets/rotate", wire.Events.Handle(a.rotateSecret))
	r.Post("/events/destinations/{ref}/secrets/{secretId}/expire", wire.Events.Handle(a.expireSecret))
}

// listSecrets answers GET /events/destinations/{ref}/secrets.
func (a *API) listSecrets(r *http.Request) (wire.Reply, error) {
	if err := wire.Events.ParseQuery(r).Err(); err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	return a.activeSecrets(r, destination)
}

// rotateSecret answers POST /events/destinations/{ref}/secrets/rotate.
func (a *API) rotateSecret(r *http.Request) (wire.Reply, error) {
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.RotateSecret(r.Context(), callerOf(r), destination.ID)
	if err != nil {
		return wire.Reply{}, err
	}
	return a.changedSecrets(r, destination.ID, at)
}

// expireSecret answers POST /events/destinations/{ref}/secrets/{secretId}/expire.
func (a *API) expireSecret(r *http.Request) (wire.Reply, error) {
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	secret, err := wire.PathUUID(r, "secretId", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.ExpireSecret(r.Context(), callerOf(r), destination.ID, secret)
	if err != nil {
		return wire.Reply{}, err
	}
	return a.changedSecrets(r, destination.ID, at)
}

func (a *API) activeSecrets(r *http.Request, destination query.Destination) (wire.Reply, error) {
	secrets, err := a.secretsOf(r.Context(), destination.ID, destination.Secrets, fullSecrets)
	return wire.OK(secretsJSON{Secrets: secrets}), err
}

// changedSecrets lists the secrets as a write has left them.
func (a *API) changedSecrets(r *http.Request, destination uuid.UUID, at eventstore.Position) (wire.Reply, error) {
	a.awaitRouting(r.Context(), at, destinations.ReadModel.Name)
	found, err := a.Queries.Destination(r.Context(), callerOf(r).Organization, destination.String(), a.Now())
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "destination")
	}
	return a.activeSecrets(r, found)
}

type secretsJSON struct {
	Secrets []secretJSON `json:"secrets"`
}

// secretView says how much of a secret is shown.
type secretView bool

const (
	maskedSecrets secretView = false // to tell them apart
	fullSecrets   secretView = true  // in the create answer and under /secrets
)

type secretJSON struct {
	ID        uuid.UUID  `json:"id"`
	Secret    string     `json:"secret"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

func (a *API) secretsOf(ctx context.Context, destination uuid.UUID, secrets []query.Secret, show secretView) ([]secretJSON, error) {
	list := make([]secretJSON, len(secrets))
	for i, s := range secrets {
		plain, err := a.open(ctx, destination, s.Sealed)
		if err != nil {
			return nil, err
		}
		secret, err := webhook.ParseSecret(string(plain))
		if err != nil {
			return nil, err
		}
		list[i] = secretJSON{ID: s.ID, Secret: secret.Masked(), CreatedAt: s.CreatedAt.UTC(), ExpiresAt: wire.UTC(s.ExpiresAt)}
		if show == fullSecrets {
			list[i].Secret = secret.Reveal()
		}
	}
	return list, nil
}
