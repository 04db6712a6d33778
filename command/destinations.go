package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/command/reservation"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// DestinationSettings are settings as callers give them, nothing sealed: URL is the whole address.
type DestinationSettings struct {
	destination.Settings

	Headers map[string]string
}

// CreateDestination is the input of a create.
type CreateDestination struct {
	DestinationSettings

	Secret   webhook.Secret // the zero value means that one is minted
	Disabled bool           // it begins disabled
}

// UpsertDestination is the input of a create or replacement by name: its ExternalID is required.
type UpsertDestination CreateDestination

// DeleteDestination is the input of a deletion.
type DeleteDestination struct{ ID uuid.UUID }

// RotateSecret is the input of a rotation.
type RotateSecret struct {
	Destination uuid.UUID
	Secret      webhook.Secret // the zero value means that one is minted
}

// ExpireSecret names the secret that ends.
type ExpireSecret struct{ Destination, Secret uuid.UUID }

// ProbedDestination is the answer of a create or upsert: the destination with a probe.
type ProbedDestination struct {
	Result[destination.State]
	Validation webhook.Reachability // zero if the destination is not new
}

// CreateDestination makes a destination with its first secret, and probes its endpoint.
func (c *Commands) CreateDestination(
	ctx context.Context, by Caller, in CreateDestination,
) (made ProbedDestination, err error) {
	if err := c.CheckDestination(ctx, in); err != nil {
		return made, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		made.Result, err = c.recordDestination(ctx, by, id, in)
		return err
	}
	name := reservation.Name{Scope: by.Organization, ExternalID: in.ExternalID}
	err = c.destinationNames().Create(ctx, by.metadata(), name, create)
	if err != nil {
		return made, nameRefusal(err, "a destination with externalId %q exists already: use PUT to replace it, or another "+
			"externalId", in.ExternalID)
	}
	made.Validation = c.Prober.Probe(ctx, by.Organization, in.URL)
	return made, nil
}

// UpsertDestination creates or replaces the destination with the input's externalId. Of many at the same time one
// creates and the others replace.
func (c *Commands) UpsertDestination(
	ctx context.Context, by Caller, in UpsertDestination,
) (made ProbedDestination, err error) {
	whole := CreateDestination(in)
	if err := c.CheckDestination(ctx, whole); err != nil {
		return made, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		made.Result, err = c.recordDestination(ctx, by, id, whole)
		return err
	}
	replace := func(ctx context.Context, id uuid.UUID) (err error) {
		made.Result, err = c.replaceNamed(ctx, by, id, whole)
		return err
	}
	name := reservation.Name{Scope: by.Organization, ExternalID: in.ExternalID}
	err = c.destinationNames().Upsert(ctx, by.metadata(), name, create, replace)
	if err != nil {
		return made, nameRefusal(err, "")
	}
	if made.Created {
		made.Validation = c.Prober.Probe(ctx, by.Organization, in.URL)
	}
	return made, nil
}

// recordDestination begins the stream of a destination. Where another request began it, it fails with ErrWrongRevision.
func (c *Commands) recordDestination(
	ctx context.Context, by Caller, id uuid.UUID, in CreateDestination,
) (made Result[destination.State], err error) {
	made, err = within(ctx, c.Quotas, amount{by.Organization, organization.LimitDestinations, id, 1},
		func() (Result[destination.State], error) { return c.beginDestination(ctx, by, id, in) })
	if !errors.Is(err, eventstore.ErrWrongRevision) && !errors.Is(err, sealing.ErrShredded) {
		return made, err
	}
	// If the other's destination was deleted already, the data key of this try came too late to be shredded with it.
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err == nil && known.State.Status == destination.StatusDeleted {
		err = c.Vault.Shred(ctx, id)
	}
	if err != nil {
		return made, err
	}
	return made, eventstore.ErrWrongRevision
}

func (c *Commands) beginDestination(
	ctx context.Context, by Caller, id uuid.UUID, in CreateDestination,
) (made Result[destination.State], err error) {
	if err := c.Vault.Create(ctx, id); err != nil {
		return made, err
	}
	settings, err := c.sealSettings(ctx, id, in.DestinationSettings, destination.FieldsAll)
	if err != nil {
		return made, err
	}
	secret, err := c.sealSecret(ctx, id, in.Secret)
	if err != nil {
		return made, err
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, destination.Create{
		Organization: by.Organization,
		SecretID:     uuid.New(),
		Secret:       secret,
		Disabled:     in.Disabled,
		At:           c.now(),
		Settings:     settings,
	}, destination.Options{
		Metadata: by.metadata(), Known: &eventstore.Loaded[destination.State]{Revision: eventstore.NoStream}, OnlyKnown: true,
	})
	made = resultOf(id, out.Loaded)
	made.Created = true
	return made, err
}

// DeleteDestination ends a destination. Its data key is shredded at once, and with it all sealed data. If the key can't
// be deleted now, or this process dies before, the cascade of deletions does it.
func (c *Commands) DeleteDestination(
	ctx context.Context, by Caller, in DeleteDestination,
) (Result[destination.State], error) {
	deleted, err := c.onDestination(ctx, by, in.ID, destination.Delete{Organization: by.Organization, At: c.now()}, nil)
	if err != nil {
		return deleted, err
	}
	_ = c.Vault.Shred(ctx, in.ID)
	name := reservation.Name{Scope: by.Organization, ExternalID: deleted.Value.Settings.ExternalID}
	c.destinationNames().Release(ctx, by.metadata(), name, in.ID)
	return deleted, nil
}

// RotateSecret adds a secret; the others that never expired overlap for 24 hours.
func (c *Commands) RotateSecret(ctx context.Context, by Caller, in RotateSecret) (Result[destination.State], error) {
	known, err := c.knownDestination(ctx, by, in.Destination)
	if err != nil {
		return Result[destination.State]{}, err
	}
	secret, err := c.sealSecret(ctx, in.Destination, in.Secret)
	renewed := keyLost(err)
	if renewed {
		// The data key of a live destination is lost: it gets another one, which opens none of the old data.
		if err = c.Vault.Create(ctx, in.Destination); err == nil {
			secret, err = c.sealSecret(ctx, in.Destination, in.Secret)
		}
	}
	if err != nil {
		return Result[destination.State]{}, refused(err)
	}
	rotated, err := c.onDestination(ctx, by, in.Destination, destination.Rotate{
		Organization: by.Organization,
		SecretID:     uuid.New(),
		Secret:       secret,
		At:           c.now(),
	}, &known)
	if renewed && errors.Is(err, destination.ErrUnknown) { // deleted right now, and its key before it was made again
		_ = c.Vault.Shred(ctx, in.Destination)
	}
	return rotated, err
}

// keyLost reports whether there is no usable data key, and waiting does not help.
func keyLost(err error) bool {
	return errors.Is(err, sealing.ErrShredded) || errors.Is(err, sealing.ErrDamaged) &&
		!errors.Is(err, sealing.ErrUnknownKey)
}

// ExpireSecret retires one secret at once.
func (c *Commands) ExpireSecret(ctx context.Context, by Caller, in ExpireSecret) (Result[destination.State], error) {
	return c.onDestination(ctx, by, in.Destination, destination.ExpireSecret{
		Organization: by.Organization, SecretID: in.Secret, At: c.now(),
	}, nil)
}

// onDestination runs a command of the destination aggregate. known may be nil.
func (c *Commands) onDestination(ctx context.Context, by Caller, id uuid.UUID, command destination.Command,
	known *eventstore.Loaded[destination.State]) (Result[destination.State], error) {
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, command, destination.Options{
		Metadata: by.metadata(),
		Known:    known,
	})
	return resultOf(id, out.Loaded), refused(err)
}

func (c *Commands) mintSealed(ctx context.Context, id uuid.UUID) ([]byte, error) {
	secret, err := webhook.Mint(rand.Reader)
	if err != nil {
		return nil, err
	}
	return c.Vault.Seal(ctx, id, sealing.Secret, []byte(secret.Reveal()))
}

// sealSecret seals the secret that the caller brings along, or mints one.
func (c *Commands) sealSecret(ctx context.Context, id uuid.UUID, own webhook.Secret) ([]byte, error) {
	if given := own.Reveal(); given != "" {
		return c.Vault.Seal(ctx, id, sealing.Secret, []byte(given))
	}
	return c.mintSealed(ctx, id)
}

// sealSettings seals what is secret of the fields that a caller sets.
func (c *Commands) sealSettings(
	ctx context.Context, id uuid.UUID, in DestinationSettings, sets destination.Field,
) (sealed destination.Settings, err error) {
	sealed = in.Settings
	sealed.URL, sealed.Address, sealed.Headers = "", destination.Sealed{}, destination.Sealed{}
	if sets.Has(destination.FieldURL) {
		sealed.URL, sealed.Address, err = c.sealAddress(ctx, id, in.URL)
	}
	if err == nil && sets.Has(destination.FieldHeaders) {
		sealed.Headers, err = c.sealHeaders(ctx, id, in.Headers)
	}
	return sealed, err
}

func (c *Commands) sealHeaders(
	ctx context.Context, id uuid.UUID, headers map[string]string,
) (destination.Sealed, error) {
	if len(headers) == 0 {
		return destination.Sealed{}, nil
	}
	plain, err := json.Marshal(headers, json.Deterministic(true))
	if err != nil {
		return destination.Sealed{}, fmt.Errorf("encode headers: %w", err)
	}
	sealed, err := c.seal(ctx, id, sealing.Headers, plain)
	if err != nil {
		return sealed, err
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		digest, err := c.Vault.Digest(ctx, id, []byte(name+": "+headers[name]))
		if err != nil {
			return sealed, err
		}
		sealed.Parts = append(sealed.Parts, destination.SealedPart{Name: name, Digest: digest})
	}
	return sealed, nil
}

// checkConfig applies the rules for a destination's URL and headers, as validate, create, replace and update do.
func (c *Commands) checkConfig(ctx context.Context, url string, headers map[string]string) error {
	if strings.TrimSpace(url) == "" {
		return refuse(Malformed, "config.url", "config.url must not be empty")
	}
	if destination.IsMasked(url) {
		return refuse(Invalid, "config.url", "config.url is masked, as a key without the scope secrets gets it: send the "+
			"whole URL, or use PATCH without config.url")
	}
	if _, err := c.Guard.CheckURL(ctx, "config.url", url); err != nil {
		return invalidConfig(ctx, "config.url", err)
	}
	if err := webhook.ValidateHeaders(headers); err != nil {
		return invalidConfig(ctx, "config.headers", err)
	}
	return nil
}

func invalidConfig(ctx context.Context, field string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Refusal{
		Kind:    Invalid,
		Field:   field,
		Message: err.Error(),
		Err:     err,
	}
}

// CheckDestination refuses settings with which no destination can be made. Its error joins the refusals of all fields.
func (c *Commands) CheckDestination(ctx context.Context, in CreateDestination) error {
	sets := destination.FieldsAll
	if in.ExternalID == "" {
		sets &^= destination.FieldExternalID
	}
	return c.checkFields(ctx, in.DestinationSettings, sets)
}

// checkFields refuses the fields that a caller sets to what they can't be.
func (c *Commands) checkFields(ctx context.Context, in DestinationSettings, sets destination.Field) error {
	var wrong []error
	if sets.Has(destination.FieldExternalID) {
		wrong = append(wrong, CheckExternalID("externalId", in.ExternalID))
	}
	if sets.Has(destination.FieldName) {
		wrong = append(wrong, requireLine("name", in.Name, maxNameLength))
	}
	for _, d := range destination.Fields {
		if !sets.Has(d.Field) || d.Fault == nil {
			continue
		}
		if fault := d.Fault(in.Settings); fault != "" {
			wrong = append(wrong, refuse(Malformed, d.Name, "%s %s", d.Name, fault))
		}
	}
	if sets.Has(destination.FieldURL) {
		wrong = append(wrong, c.checkConfig(ctx, in.URL, nil))
	}
	if sets.Has(destination.FieldHeaders) {
		if err := webhook.ValidateHeaders(in.Headers); err != nil {
			wrong = append(wrong, invalidConfig(ctx, "config.headers", err))
		}
	}
	return errors.Join(wrong...)
}
