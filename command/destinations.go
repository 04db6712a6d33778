package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/reservation"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

const (
	maxNameLength = 255
	maxDebounce   = 86400 // seconds
)

// DestinationInput is a whole destination as a caller describes it.
type DestinationInput struct {
	ExternalID            string // optional
	Name                  string
	URL                   string
	Headers               map[string]string
	DebounceWindowSeconds int
}

// CreatedDestination is what the create answer shows beyond the destination itself.
type CreatedDestination struct {
	ID         uuid.UUID
	Validation webhook.Reachability
}

// CreateDestination makes a destination with its first secret, and probes its endpoint at the same time.
func (c *Commands) CreateDestination(ctx context.Context, by Caller, in DestinationInput) (created CreatedDestination, at eventstore.Position, err error) {
	if err := c.checkDestination(ctx, in); err != nil {
		return created, eventstore.Start, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		created.ID = id
		at, err = c.recordDestination(ctx, by, id, in)
		return err
	}
	if in.ExternalID == "" {
		err = create(ctx, uuid.New())
	} else {
		err = c.destinationNames().Create(ctx, by.metadata(), reservation.Name{Scope: by.Organization, ExternalID: in.ExternalID}, create)
	}
	if err != nil {
		return created, eventstore.Start, nameRefusal(err, "a destination with externalId %q exists already: use PUT to replace it, or another externalId", in.ExternalID)
	}
	created.Validation = c.Prober.Probe(ctx, in.URL)
	return created, at, nil
}

// UpsertDestination creates or replaces the destination with the input's externalId; created says which it was. Of
// many at the same time one creates and the others replace.
func (c *Commands) UpsertDestination(ctx context.Context, by Caller, in DestinationInput) (d CreatedDestination, created bool, at eventstore.Position, err error) {
	if err := c.checkDestination(ctx, in); err != nil {
		return d, false, eventstore.Start, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		d.ID, created = id, true
		at, err = c.recordDestination(ctx, by, id, in)
		return err
	}
	replace := func(ctx context.Context, id uuid.UUID) (err error) {
		d.ID, created = id, false
		at, err = c.replaceNamed(ctx, by, id, in)
		return err
	}
	err = c.destinationNames().Upsert(ctx, by.metadata(), reservation.Name{Scope: by.Organization, ExternalID: in.ExternalID}, create, replace)
	if err != nil {
		return d, false, eventstore.Start, nameRefusal(err, "")
	}
	if created {
		d.Validation = c.Prober.Probe(ctx, in.URL)
	}
	return d, created, at, nil
}

// recordDestination begins the stream of a destination. Where another request began it, it fails with
// ErrWrongRevision.
func (c *Commands) recordDestination(ctx context.Context, by Caller, id uuid.UUID, in DestinationInput) (eventstore.Position, error) {
	at, err := c.recordDestinationAt(ctx, by, id, in)
	if !errors.Is(err, eventstore.ErrWrongRevision) && !errors.Is(err, sealing.ErrShredded) {
		return at, err
	}
	// Where the other's destination was deleted already, the data key of this try came too late to be shredded with it.
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err == nil && known.State.Status == destination.StatusDeleted {
		err = c.Vault.Shred(ctx, id)
	}
	if err != nil {
		return eventstore.Start, err
	}
	return eventstore.Start, eventstore.ErrWrongRevision
}

func (c *Commands) recordDestinationAt(ctx context.Context, by Caller, id uuid.UUID, in DestinationInput) (eventstore.Position, error) {
	if err := c.Vault.Create(ctx, id); err != nil {
		return eventstore.Start, err
	}
	headers, err := c.sealHeaders(ctx, id, in.Headers)
	if err != nil {
		return eventstore.Start, err
	}
	secret, err := c.mintSealed(ctx, id)
	if err != nil {
		return eventstore.Start, err
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, destination.Create{
		Organization: by.Organization, SecretID: uuid.New(), Secret: secret, At: c.now(),
		Settings: destination.Settings{
			ExternalID: in.ExternalID, Name: in.Name, URL: in.URL, Headers: headers, DebounceWindowSeconds: in.DebounceWindowSeconds,
		},
	}, destination.Options{
		Metadata: by.metadata(), Known: &eventstore.Loaded[destination.State]{Revision: eventstore.NoStream}, OnlyKnown: true,
	})
	return out.Position, err
}

// DeleteDestination ends a destination. Its data key goes at once, and with it all that was sealed for it.
func (c *Commands) DeleteDestination(ctx context.Context, by Caller, id uuid.UUID) (eventstore.Position, error) {
	out, err := destination.Aggregate.Execute(ctx, c.Store, id,
		destination.Delete{Organization: by.Organization, At: c.now()}, destination.Options{Metadata: by.metadata()})
	if err != nil {
		return eventstore.Start, destinationError(err)
	}
	if err := c.Vault.Shred(ctx, id); err != nil {
		return eventstore.Start, err
	}
	c.destinationNames().Release(ctx, by.metadata(), reservation.Name{Scope: by.Organization, ExternalID: out.State.Settings.ExternalID}, id)
	return out.Position, nil
}

// RotateSecret mints a secret; the others that never expired overlap for 24 hours. It returns the destination as this has
// left it.
func (c *Commands) RotateSecret(ctx context.Context, by Caller, id uuid.UUID) (destination.State, eventstore.Position, error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err != nil {
		return known.State, eventstore.Start, err
	}
	if !known.State.VisibleTo(by.Organization) {
		return known.State, eventstore.Start, destinationError(destination.ErrUnknown)
	}
	secret, err := c.mintSealed(ctx, id)
	if err != nil {
		return known.State, eventstore.Start, destinationError(err)
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, destination.Rotate{
		Organization: by.Organization, SecretID: uuid.New(), Secret: secret, At: c.now(),
	}, destination.Options{Metadata: by.metadata(), Known: &known})
	return out.State, out.Position, destinationError(err)
}

// ExpireSecret retires one secret at once. It returns the destination as this has left it.
func (c *Commands) ExpireSecret(ctx context.Context, by Caller, id, secret uuid.UUID) (destination.State, eventstore.Position, error) {
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, destination.ExpireSecret{
		Organization: by.Organization, SecretID: secret, At: c.now(),
	}, destination.Options{Metadata: by.metadata()})
	return out.State, out.Position, destinationError(err)
}

func destinationError(err error) error {
	if errors.Is(err, sealing.ErrShredded) { // deleted right now
		return &Refusal{Kind: NotFound, Message: destination.ErrUnknown.Error(), Err: err}
	}
	refusals := []struct {
		cause error
		kind  Kind
	}{
		{destination.ErrUnknown, NotFound},
		{destination.ErrUnknownSecret, NotFound},
		{destination.ErrTooManySecrets, Conflict},
		{destination.ErrOnlySecret, Conflict},
	}
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			return &Refusal{Kind: r.kind, Message: r.cause.Error(), Err: err}
		}
	}
	return err
}

func (c *Commands) mintSealed(ctx context.Context, id uuid.UUID) ([]byte, error) {
	secret, err := webhook.Mint(rand.Reader)
	if err != nil {
		return nil, err
	}
	return c.Vault.Seal(ctx, id, []byte(secret.Reveal()))
}

func (c *Commands) sealHeaders(ctx context.Context, id uuid.UUID, headers map[string]string) (destination.Sealed, error) {
	if len(headers) == 0 {
		return destination.Sealed{}, nil
	}
	plain, err := json.Marshal(headers, json.Deterministic(true))
	if err != nil {
		return destination.Sealed{}, fmt.Errorf("encode headers: %w", err)
	}
	var sealed destination.Sealed
	if sealed.Data, err = c.Vault.Seal(ctx, id, plain); err != nil {
		return sealed, err
	}
	sealed.Digest, err = c.Vault.Digest(ctx, id, plain)
	return sealed, err
}

// CheckConfig applies the rules for a destination's URL and headers, as validate, create, replace and update do.
func (c *Commands) CheckConfig(ctx context.Context, url string, headers map[string]string) error {
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
	return &Refusal{Kind: Invalid, Field: field, Message: err.Error(), Err: err}
}

func (c *Commands) checkDestination(ctx context.Context, in DestinationInput) error {
	patch := DestinationPatch{Name: &in.Name, URL: &in.URL, Headers: &in.Headers, DebounceWindowSeconds: &in.DebounceWindowSeconds}
	if in.ExternalID != "" {
		patch.ExternalID = &in.ExternalID
	}
	return c.checkPatch(ctx, patch)
}

func (c *Commands) checkPatch(ctx context.Context, p DestinationPatch) error {
	if p.ExternalID != nil && *p.ExternalID != "" {
		if err := CheckExternalID("externalId", *p.ExternalID); err != nil {
			return err
		}
	}
	if p.Name != nil {
		if n := utf8.RuneCountInString(*p.Name); n < 1 || n > maxNameLength {
			return refuse(Malformed, "name", "name must have 1 to %d characters", maxNameLength)
		}
	}
	if p.DebounceWindowSeconds != nil && (*p.DebounceWindowSeconds < 0 || *p.DebounceWindowSeconds > maxDebounce) {
		return refuse(Malformed, "debounceWindowSeconds", "debounceWindowSeconds must be 0 to %d", maxDebounce)
	}
	if p.URL != nil {
		if err := c.CheckConfig(ctx, *p.URL, nil); err != nil {
			return err
		}
	}
	if p.Headers != nil {
		if err := webhook.ValidateHeaders(*p.Headers); err != nil {
			return invalidConfig(ctx, "config.headers", err)
		}
	}
	return nil
}
