package httpapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/projections/destinations"
	"carillon/query"
)

func (a *API) secretRoutes(r routes) {
	r.secrets.Get("/events/destinations/{ref}/secrets",
		wire.Events.Handle(wire.NoQuery(wire.With(a.destination, a.listSecrets))))
	r.write.Post("/events/destinations/{ref}/secrets/rotate",
		wire.Events.Handle(wire.EmptyBody(wire.With(a.destinationID, a.rotateSecret))))
	r.write.Post("/events/destinations/{ref}/secrets/{secretId}/expire",
		wire.Events.Handle(wire.EmptyBody(wire.With2(pathSecret, a.destinationID, a.expireSecret))))
}

// listSecrets answers GET /events/destinations/{ref}/secrets.
func (a *API) listSecrets(r *http.Request, found query.Destination) (wire.Reply, error) {
	return a.secretsReply(r, found.ID, found.Secrets)
}

// rotateSecret answers POST /events/destinations/{ref}/secrets/rotate.
func (a *API) rotateSecret(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.RotateSecret(r.Context(), callerOf(r), command.RotateSecret{Destination: id})
	return a.changedSecrets(r, changed, err)
}

func pathSecret(r *http.Request) (uuid.UUID, error) {
	return wire.PathUUID(r, "secretId", wire.NotFound)
}

// expireSecret answers POST /events/destinations/{ref}/secrets/{secretId}/expire.
func (a *API) expireSecret(r *http.Request, secret, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.ExpireSecret(r.Context(), callerOf(r), command.ExpireSecret{
		Destination: id,
		Secret:      secret,
	})
	return a.changedSecrets(r, changed, err)
}

// changedSecrets answers a change of secrets with those that are active, or its refusal.
func (a *API) changedSecrets(
	r *http.Request, changed command.Result[destination.State], refused error,
) (wire.Reply, error) {
	if refused != nil {
		return wire.Reply{}, refused
	}
	a.awaitRouting(r.Context(), changed.Position, destinations.ReadModel.Name)
	return a.secretsReply(r, changed.ID, activeSecrets(changed.Value, a.Now()))
}

// activeSecrets are those of a destination that sign at a time, the newest first, as the read model lists them.
func activeSecrets(d destination.State, now time.Time) []query.Secret {
	var active []query.Secret
	for _, s := range slices.Backward(d.Secrets) {
		if s.ActiveAt(now) {
			active = append(active, query.Secret{
				ID:        s.ID,
				Sealed:    s.Sealed,
				CreatedAt: s.CreatedAt,
				ExpiresAt: wire.Nullable(s.ExpiresAt),
			})
		}
	}
	return active
}

func (a *API) secretsReply(r *http.Request, destination uuid.UUID, active []query.Secret) (wire.Reply, error) {
	secrets, err := a.secretsOf(r.Context(), destination, active, fullSecrets)
	if err == nil && may(r.Context(), organization.ScopeSecrets) {
		err = a.disclose(r.Context(), command.Disclose{
			Destination: destination,
			What:        []disclosure.Part{disclosure.Secrets},
			Secrets:     idsOf(active),
		})
	}
	return wire.OK(secretsJSON{Secrets: secrets}), err
}

// disclose records the parts shown in full to the caller. It comes after the values were opened, and before it is sent.
func (a *API) disclose(ctx context.Context, shown command.Disclose) error {
	if len(shown.What) == 0 {
		return nil
	}
	return a.Commands.Disclose(ctx, identityOf(ctx).caller, shown)
}

func idsOf(secrets []query.Secret) []uuid.UUID {
	return wire.ListOf(secrets, func(s query.Secret) uuid.UUID { return s.ID })
}

type secretsJSON struct {
	Secrets []secretJSON `json:"secrets"`
}

// secretView is the shown part of a secret.
type secretView bool

const (
	maskedSecrets secretView = false // to distinguish them
	fullSecrets   secretView = true  // in the create answer and under /secrets
)

type secretJSON struct {
	ID        uuid.UUID  `json:"id"`
	Secret    string     `json:"secret"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"`
}

func (a *API) secretsOf(
	ctx context.Context, destination uuid.UUID, secrets []query.Secret, show secretView,
) ([]secretJSON, error) {
	list := make([]secretJSON, len(secrets))
	for i, s := range secrets {
		list[i] = secretJSON{
			ID:        s.ID,
			Secret:    unavailable,
			CreatedAt: s.CreatedAt.UTC(),
			ExpiresAt: wire.UTC(s.ExpiresAt),
		}
		plain, err := a.open(ctx, destination, sealing.Secret, s.Sealed)
		if errors.Is(err, errUnavailable) {
			continue
		}
		if err != nil {
			return nil, err
		}
		secret, err := webhook.ParseSecret(string(plain))
		if err != nil {
			return nil, err
		}
		list[i].Secret = secret.Masked()
		if show == fullSecrets && may(ctx, organization.ScopeSecrets) {
			list[i].Secret = secret.Reveal()
		}
	}
	return list, nil
}
