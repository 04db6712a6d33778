package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery/sending"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/query"
)

const transportWebhook = "webhook" // the only transport

// The statuses that a caller can set. Carillon itself sets a third one, auto_disabled.
const (
	statusEnabled  = "enabled"
	statusDisabled = "disabled"
)

// configBody is a destination's config as sent.
type configBody struct {
	URL     wire.Optional[string]            `json:"url"`
	Headers wire.Optional[map[string]string] `json:"headers"`
}

// putDestinationBody is a whole destination as sent, without the externalId, which is in the path of PUT.
type putDestinationBody struct {
	Name                  wire.Optional[string]            `json:"name"`
	Transport             wire.Optional[string]            `json:"transport"`
	Config                wire.Optional[configBody]        `json:"config"`
	DebounceWindowSeconds wire.Optional[int]               `json:"debounceWindowSeconds"`
	MaxRequestsPerSecond  wire.Clearable[destination.Rate] `json:"maxRequestsPerSecond"`
	Traceparent           wire.Optional[bool]              `json:"traceparent"`
}

// Check implements wire.Body. The command checks lengths, ranges and rules.
func (b *putDestinationBody) Check(c *wire.Checks) {
	c.Require("name", b.Name.Set)
	checkTransport(c, b.Transport)
	checkLimit(c, b.MaxRequestsPerSecond)
	if c.Require("config", b.Config.Set) {
		c.Require("config.url", b.Config.Value.URL.Set)
		checkUnmasked(c, b.Config.Value.Headers)
	}
}

func checkTransport(c *wire.Checks, transport wire.Optional[string]) {
	if transport.Set {
		c.OneOf("transport", transport.Value, transportWebhook)
	}
}

// checkLimit refuses 0, which is no limit to the command.
func checkLimit(c *wire.Checks, limit wire.Clearable[destination.Rate]) {
	if limit.Set && !limit.Null && limit.Value == 0 {
		c.Fail("maxRequestsPerSecond", "%s", destination.LimitBounds)
	}
}

// settings returns the values of the members that are set, and which these are.
func (b *putDestinationBody) settings() (in command.DestinationSettings, sets destination.Field) {
	take(&in.Name, b.Name, destination.FieldName, &sets)
	take(&in.URL, b.Config.Value.URL, destination.FieldURL, &sets)
	take(&in.Headers, b.Config.Value.Headers, destination.FieldHeaders, &sets)
	take(&in.DebounceWindowSeconds, b.DebounceWindowSeconds, destination.FieldDebounce, &sets)
	take(&in.MaxRequestsPerSecond, b.MaxRequestsPerSecond.Optional(), destination.FieldLimit, &sets)
	take(&in.Traceparent, b.Traceparent, destination.FieldTraceparent, &sets)
	return in, sets
}

// take copies a member that is set.
func take[T any, F ~uint](to *T, member wire.Optional[T], field F, sets *F) {
	if member.Set {
		*to = member.Value
		*sets |= field
	}
}

func (b *putDestinationBody) create(externalID string) (in command.CreateDestination) {
	in.DestinationSettings, _ = b.settings()
	in.ExternalID = externalID
	return in
}

// createDestinationBody is a new destination as sent.
type createDestinationBody struct {
	putDestinationBody `json:",inline"`
	ExternalID         wire.Optional[string] `json:"externalId"`
	Secret             wire.Optional[string] `json:"secret"`
	Enabled            wire.Optional[bool]   `json:"enabled"`
	secret             webhook.Secret
}

// Check implements wire.Body.
func (b *createDestinationBody) Check(c *wire.Checks) {
	b.putDestinationBody.Check(c)
	c.Filled("externalId", b.ExternalID)
	if b.Secret.Set {
		var err error
		if b.secret, err = webhook.ParseSecret(b.Secret.Value); err != nil {
			c.Fail("secret", "must be whsec_ and base64 of 24 to 64 bytes: send one of that form, or leave it out to have one "+
				"minted")
		}
	}
}

func (b *createDestinationBody) create() command.CreateDestination {
	in := b.putDestinationBody.create(b.ExternalID.Value)
	in.Secret, in.Disabled = b.secret, b.Enabled.Set && !b.Enabled.Value
	return in
}

// patchDestinationBody changes the members that it has. Headers are replaced as a whole.
type patchDestinationBody struct {
	putDestinationBody `json:",inline"`
	ExternalID         wire.Optional[string] `json:"externalId"`
	Status             wire.Optional[string] `json:"status"`
}

// Check implements wire.Body.
func (b *patchDestinationBody) Check(c *wire.Checks) {
	c.Filled("externalId", b.ExternalID)
	checkTransport(c, b.Transport)
	checkUnmasked(c, b.Config.Value.Headers)
	checkLimit(c, b.MaxRequestsPerSecond)
	if b.Status.Set {
		c.OneOf("status", b.Status.Value, statusEnabled, statusDisabled)
	}
}

func (b *patchDestinationBody) revise(id uuid.UUID) command.ReviseDestination {
	in := command.ReviseDestination{ID: id}
	in.DestinationSettings, in.Sets = b.settings()
	take(&in.ExternalID, b.ExternalID, destination.FieldExternalID, &in.Sets)
	if b.Status.Set {
		enabled := b.Status.Value == statusEnabled
		in.Enabled = &enabled
	}
	return in
}

type validateBody struct {
	Transport wire.Optional[string]     `json:"transport"`
	Config    wire.Optional[configBody] `json:"config"`
}

// Check implements wire.Body.
func (b *validateBody) Check(c *wire.Checks) {
	checkTransport(c, b.Transport)
	if c.Require("config", b.Config.Set) {
		c.Require("config.url", b.Config.Value.URL.Set)
	}
}

type backfillBody struct {
	Since        wire.Optional[string] `json:"since"`
	Until        wire.Optional[string] `json:"until"`
	since, until time.Time
}

// Check implements wire.Body. The command checks how long the window is.
func (b *backfillBody) Check(c *wire.Checks) {
	b.since = checkTime(c, "since", b.Since)
	b.until = checkTime(c, "until", b.Until)
}

func checkTime(c *wire.Checks, field string, given wire.Optional[string]) time.Time {
	if !c.Require(field, given.Set) {
		return time.Time{}
	}
	at, err := wire.ParseTime(given.Value)
	if err != nil {
		c.Fail(field, "must be an ISO 8601 time with Z or an offset, such as 2026-11-21T12:00:00Z")
	}
	return at
}

// Destination is a destination as its organization sees it.
type Destination struct {
	ID         uuid.UUID `json:"id"`
	ExternalID *string   `json:"externalId"`
	Name       string    `json:"name"`
	Transport  string    `json:"transport"`
	Config     struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	} `json:"config"`
	destination.Answered
	Status              string       `json:"status"`
	StatusReason        *string      `json:"statusReason"`
	ConsecutiveFailures int          `json:"consecutiveFailures"`
	LastSuccessAt       *time.Time   `json:"lastSuccessAt"`
	LastFailureAt       *time.Time   `json:"lastFailureAt"`
	LastErrorMessage    *string      `json:"lastErrorMessage"`
	Secrets             []secretJSON `json:"secrets"`
	CreatedAt           time.Time    `json:"createdAt"`
	UpdatedAt           time.Time    `json:"updatedAt"`
}

type createdDestinationJSON struct {
	Destination `json:",inline"`
	Validation  validationJSON `json:"validation"`
}

// destinationOf is a caller's view of a destination. Secrets shown in full are recorded as disclosed.
func (a *API) destinationOf(ctx context.Context, d query.Destination, show secretView) (Destination, error) {
	j := Destination{
		ID:                  d.ID,
		ExternalID:          wire.Nullable(d.ExternalID),
		Name:                d.Name,
		Transport:           transportWebhook,
		Answered:            destination.Answered(d.Plain),
		Status:              d.Status,
		StatusReason:        d.StatusReason,
		ConsecutiveFailures: d.ConsecutiveFailures,
		LastSuccessAt:       wire.UTC(d.LastSuccessAt),
		LastFailureAt:       wire.UTC(d.LastFailureAt),
		LastErrorMessage:    d.LastErrorMessage,
		CreatedAt:           d.CreatedAt.UTC(),
		UpdatedAt:           d.UpdatedAt.UTC(),
	}
	var err error
	if j.Config.URL, err = a.addressFor(ctx, d); err != nil {
		return j, err
	}
	j.Config.Headers = map[string]string{}
	if len(d.Headers.Data) > 0 {
		plain, err := a.open(ctx, d.ID, sealing.Headers, d.Headers.Data)
		switch {
		case errors.Is(err, errUnavailable):
			j.Config.Headers[unavailable] = unavailable
		case err != nil:
			return j, err
		default:
			if err := json.Unmarshal(plain, &j.Config.Headers); err != nil {
				return j, err
			}
			j.Config.Headers = headersFor(ctx, j.Config.Headers)
		}
	}
	if j.Secrets, err = a.secretsOf(ctx, d.ID, d.Secrets, show); err != nil {
		return j, err
	}
	return j, a.disclose(ctx, disclosedBy(ctx, d, j, show))
}

// disclosedBy returns the parts that an answer about a destination shows in full.
func disclosedBy(
	ctx context.Context, d query.Destination, j Destination, show secretView,
) command.Disclose {
	shown := command.Disclose{Destination: d.ID}
	if !may(ctx, organization.ScopeSecrets) {
		return shown
	}
	if show == fullSecrets && len(j.Secrets) > 0 {
		shown.What, shown.Secrets = append(shown.What, disclosure.Secrets), idsOf(d.Secrets)
	}
	if destination.Hides(j.Config.URL) && j.Config.URL != unavailable {
		shown.What = append(shown.What, disclosure.Address)
	}
	if _, lost := j.Config.Headers[unavailable]; len(d.Headers.Data) > 0 && !lost {
		shown.What = append(shown.What, disclosure.Headers)
	}
	return shown
}

// addressFor is the address of a destination as a caller may see it.
func (a *API) addressFor(ctx context.Context, d query.Destination) (string, error) {
	switch {
	case len(d.Address.Data) == 0 && may(ctx, organization.ScopeSecrets):
		return d.URL, nil
	case len(d.Address.Data) == 0:
		return destination.Masked(d.URL, nil), nil
	case !may(ctx, organization.ScopeSecrets):
		return d.URL, nil
	}
	plain, err := a.open(ctx, d.ID, sealing.Address, d.Address.Data)
	if errors.Is(err, errUnavailable) {
		return unavailable, nil
	}
	return string(plain), err
}

// unavailable stands in an answer for a value that can't be opened, because it or its data key is damaged or lost.
const unavailable = "unavailable"

var errUnavailable = errors.New("the value can't be opened")

// open decrypts a value of a destination. If that can't be done permanently, it fails with errUnavailable; if the
// destination is being deleted at this moment, with query.ErrNotFound.
func (a *API) open(ctx context.Context, id uuid.UUID, field sealing.Field, sealed []byte) ([]byte, error) {
	plain, err := a.Commands.Vault.Open(ctx, id, field, sealed)
	lost := errors.Is(err, sealing.ErrShredded)
	if !lost && !errors.Is(err, sealing.ErrDamaged) {
		return plain, err
	}
	if lost {
		if err := a.notDeleted(ctx, id); err != nil {
			return nil, err
		}
	}
	wire.Note(ctx, slog.String("unavailable", id.String()))
	return nil, fmt.Errorf("%w: %w", errUnavailable, err)
}

// notDeleted fails with query.ErrNotFound if a destination is being deleted at this moment.
func (a *API) notDeleted(ctx context.Context, id uuid.UUID) error {
	known, err := destination.Aggregate.Load(ctx, a.Commands.Store, id)
	if err == nil && known.State.Status == destination.StatusDeleted {
		err = wire.NotFoundError(query.ErrNotFound, "destination")
	}
	return err
}

type validationJSON struct {
	Reachable      bool    `json:"reachable"`
	StatusCode     *int    `json:"statusCode"`
	ResponseTimeMs int64   `json:"responseTimeMs"`
	Error          *string `json:"error"`
}

func validationOf(r webhook.Reachability) validationJSON {
	v := validationJSON{Reachable: r.Reachable, ResponseTimeMs: r.ResponseTimeMs(), Error: wire.Nullable(r.ErrorMessage)}
	if r.StatusCode != 0 {
		v.StatusCode = &r.StatusCode
	}
	return v
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

func testedOf(t sending.Tested) testedJSON {
	j := testedJSON{
		Delivered:      t.Result.OK(),
		ResponseTimeMs: t.Result.Duration.Milliseconds(),
		Error:          wire.Nullable(t.Result.ErrorMessage),
		WebhookID:      t.WebhookID,
	}
	if t.Result.StatusCode != 0 {
		j.StatusCode = &t.Result.StatusCode
	}
	j.Event.Type, j.Event.ID, j.Event.Time = catalog.DeliveryTest, t.EventID, t.Time
	return j
}

type backfillJSON struct {
	EventsScanned     int `json:"eventsScanned"`
	DeliveriesCreated int `json:"deliveriesCreated"`
}
