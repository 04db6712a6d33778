package console

import (
	"context"
	"errors"
	"log/slog"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/query"
)

func (c *Console) secretRoutes(r chi.Router) {
	r.Get("/destinations/{id}/{change:rotate}", c.page(c.confirmChange))
	r.Post("/destinations/{id}/rotate", c.page(c.rotate))
	r.Get("/destinations/{id}/secrets/{secret}/{change:expire|reveal}", c.page(c.confirmSecret))
	r.Post("/destinations/{id}/secrets/{secret}/expire", c.act(c.expire))
	r.Post("/destinations/{id}/secrets/{secret}/reveal", c.page(c.reveal))
}

// errUnavailable is returned for a sealed value that is damaged or whose data key is gone.
var errUnavailable = &wire.Failure{Kind: wire.Conflict, Issue: unreadable}

// open decrypts a value of a destination.
func (c *Console) open(ctx context.Context, destination uuid.UUID, field sealing.Field, sealed []byte) ([]byte, error) {
	plain, err := c.Commands.Vault.Open(ctx, destination, field, sealed)
	if errors.Is(err, sealing.ErrShredded) || errors.Is(err, sealing.ErrDamaged) {
		wire.Note(ctx, slog.String("unavailable", destination.String()))
		return nil, errUnavailable
	}
	return plain, err
}

// address returns the full address of a destination.
func (c *Console) address(ctx context.Context, d query.Destination) (string, error) {
	if len(d.Address.Data) == 0 {
		return d.URL, nil
	}
	plain, err := c.open(ctx, d.ID, sealing.Address, d.Address.Data)
	return string(plain), err
}

// shownAddress returns the address of a destination as the visitor may see it.
func (c *Console) shownAddress(v *visit, d query.Destination) (string, error) {
	switch {
	case v.session.May(organization.ScopeSecrets):
		url, err := c.address(v.Context(), d)
		switch {
		case errors.Is(err, errUnavailable):
			return "(can't be read any more)", nil
		case err == nil && destination.Hides(url):
			err = c.disclose(v, d.ID, disclosure.Address)
		}
		return url, err
	}
	return publicAddress(d), nil
}

// publicAddress returns the public part of an address. Lists show nothing more, because each full address that is
// shown is an entry in the audit trail.
func publicAddress(d query.Destination) string {
	if len(d.Address.Data) > 0 {
		return d.URL
	}
	return destination.Masked(d.URL, nil) // recorded before addresses were sealed
}

// secret opens a sealed secret.
func (c *Console) secret(ctx context.Context, destination uuid.UUID, sealed []byte) (webhook.Secret, error) {
	plain, err := c.open(ctx, destination, sealing.Secret, sealed)
	if err != nil {
		return webhook.Secret{}, err
	}
	return webhook.ParseSecret(string(plain))
}

// rotate answers POST /console/destinations/{id}/rotate. The answer has the new secret if the visitor may see secrets.
func (c *Console) rotate(v *visit) (screen, error) {
	id := v.id("id")
	changed, err := c.Commands.RotateSecret(v.Context(), v.caller(), command.RotateSecret{Destination: id})
	if err != nil {
		return screen{}, err
	}
	c.See(v.Context(), changed.Position, ofDestination...)
	shown := secretInFull{Destination: id, Name: changed.Value.Settings.Name, New: true}
	if !v.session.May(organization.ScopeSecrets) {
		return shown.screen(), nil
	}
	made := changed.Value.Secrets[len(changed.Value.Secrets)-1]
	return c.showInFull(v, shown, made.ID, made.Sealed)
}

// confirmSecret answers GET of each change of one secret.
func (c *Console) confirmSecret(v *visit) (screen, error) {
	found, secret, err := c.oneSecret(v)
	change := chi.URLParam(v.Request, "change")
	return screen{
		Title:    upperFirst(change) + " a secret",
		Template: "confirm",
		Data:     confirmation{Change: change + "-secret", Destination: found, Secret: secret.ID},
	}, err
}

func (c *Console) oneSecret(v *visit) (query.Destination, query.Secret, error) {
	found, err := c.destination(v)
	if err != nil {
		return found, query.Secret{}, err
	}
	for _, secret := range found.Secrets {
		if secret.ID == v.id("secret") {
			return found, secret, nil
		}
	}
	return found, query.Secret{}, query.ErrNotFound
}

// expire answers POST /console/destinations/{id}/secrets/{secret}/expire.
func (c *Console) expire(v *visit) (string, error) {
	found, secret, err := c.oneSecret(v)
	if err != nil {
		return "", err
	}
	changed, err := c.Commands.ExpireSecret(v.Context(), v.caller(), command.ExpireSecret{
		Destination: found.ID,
		Secret:      secret.ID,
	})
	return c.changed(v, changed.Position, err, v.destinationPath(found.ID, "expired"), ofDestination...)
}

// secretInFull is the page of a secret that was revealed or made.
type secretInFull struct {
	Destination uuid.UUID
	Name        string
	Secret      string // empty if the visitor may not see it
	New         bool
}

func (s secretInFull) screen() screen {
	title := "A secret of " + s.Name
	if s.New {
		title = "New secret of " + s.Name
	}
	return screen{Title: title, Template: "secret", Data: s}
}

// discloseSecrets records which secrets are shown in full to the visitor.
func (c *Console) discloseSecrets(v *visit, id uuid.UUID, secrets ...uuid.UUID) error {
	return c.Commands.Disclose(v.Context(), v.caller(), command.Disclose{
		Destination: id,
		What:        []disclosure.Part{disclosure.Secrets},
		Secrets:     secrets,
	})
}

// disclose records what is shown in full to the visitor.
func (c *Console) disclose(v *visit, id uuid.UUID, what ...disclosure.Part) error {
	return c.Commands.Disclose(v.Context(), v.caller(), command.Disclose{Destination: id, What: what})
}

// reveal answers POST /console/destinations/{id}/secrets/{secret}/reveal. The audit trail records the disclosure, and
// the log names the secret.
func (c *Console) reveal(v *visit) (screen, error) {
	found, sealed, err := c.oneSecret(v)
	if err != nil {
		return screen{}, err
	}
	return c.showInFull(v, secretInFull{Destination: found.ID, Name: found.Name}, sealed.ID, sealed.Sealed)
}

// showInFull opens a secret and records its disclosure.
func (c *Console) showInFull(v *visit, shown secretInFull, id uuid.UUID, sealed []byte) (screen, error) {
	secret, err := c.secret(v.Context(), shown.Destination, sealed)
	if err != nil {
		return screen{}, err
	}
	if err := c.discloseSecrets(v, shown.Destination, id); err != nil {
		return screen{}, err
	}
	wire.Note(v.Context(), slog.String("revealed", id.String()))
	shown.Secret = secret.Reveal()
	return shown.screen(), nil
}
