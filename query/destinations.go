package query

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/projections/deliveries/deliverystate"
)

// Destination is a webhook destination with its health and its active secrets.
type Destination struct {
	ID           uuid.UUID
	Organization uuid.UUID
	destination.Settings
	Status       string  // enabled, disabled, auto_disabled
	StatusReason *string // of an automatic disabling
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Revision     int64 // of the destination's stream
	Health
	Secrets []Secret // active ones, newest first
}

// Health is how a destination has been answering.
type Health struct {
	ConsecutiveFailures int
	StreakStartedAt     *time.Time // first failure of the streak
	LastSuccessAt       *time.Time // nil if there was none
	LastFailureAt       *time.Time // since the last success
	LastErrorMessage    *string    // of the last failure since the last success
}

// Secret is a signing secret.
type Secret struct {
	ID        uuid.UUID
	Sealed    []byte
	CreatedAt time.Time
	ExpiresAt *time.Time // nil if it does not expire
}

const selectDestination = `
	SELECT d.id, d.organization, coalesce(d.external_id, ''), d.name, d.shown_url, d.address, d.headers,
		d.settings, d.status, d.status_reason, d.created_at, d.updated_at, d.revision,
		coalesce(h.consecutive_failures, 0), h.streak_started_at, h.last_success_at, h.last_failure_at, h.last_error_message
	FROM destinations.destinations d LEFT JOIN health.health h ON h.destination = d.id`

// DestinationLimits returns the requests per second of all destinations that have a limit.
func (q *Queries) DestinationLimits(ctx context.Context) (map[uuid.UUID]float64, error) {
	return mapped[uuid.UUID, float64](ctx, q.Pool, "limits of destinations", `
		SELECT id, (settings->>'maxRequestsPerSecond')::float8 FROM destinations.destinations
		WHERE settings->>'maxRequestsPerSecond' IS NOT NULL`)
}

func destinationRow(row pgx.CollectableRow) (d Destination, err error) {
	err = row.Scan(&d.ID, &d.Organization, &d.ExternalID, &d.Name, &d.URL, &d.Address, &d.Headers, &d.Plain, &d.Status,
		&d.StatusReason, &d.CreatedAt, &d.UpdatedAt, &d.Revision, &d.ConsecutiveFailures, &d.StreakStartedAt,
		&d.LastSuccessAt, &d.LastFailureAt, &d.LastErrorMessage)
	return d, err
}

// Destination finds a destination by its UUID or external id, the UUID first, with the secrets that are active at
// now. It returns ErrNotFound if the organization has no such destination.
func (q *Queries) Destination(ctx context.Context, organization uuid.UUID, ref string,
	now time.Time) (Destination, error) {
	found, err := byRef(ref, func(column string, ref any) (Destination, error) {
		return one(ctx, q.Pool, "destination", destinationRow,
			selectDestination+" WHERE d.organization = $1 AND d."+column+" = $2", organization, ref)
	})
	shown := []Destination{found}
	if err == nil {
		err = q.addSecrets(ctx, shown, now)
	}
	return shown[0], err
}

// DestinationID finds the id of a destination by its UUID or external id, as Destination does.
func (q *Queries) DestinationID(ctx context.Context, organization uuid.UUID, ref string) (uuid.UUID, error) {
	return byRef(ref, func(column string, ref any) (uuid.UUID, error) {
		return value[uuid.UUID](ctx, q.Pool, "destination",
			"SELECT id FROM destinations.destinations WHERE organization = $1 AND "+column+" = $2", organization, ref)
	})
}

// byRef resolves a reference as a UUID if it has the form of one, then as an external id. The columns are named "id"
// and "external_id".
func byRef[T any](ref string, find func(column string, ref any) (T, error)) (T, error) {
	if id, err := uuid.Parse(ref); err == nil && len(ref) == 36 {
		found, err := find("id", id)
		if !errors.Is(err, ErrNotFound) {
			return found, err
		}
	}
	return find("external_id", ref)
}

// Destinations lists an organization's destinations, oldest first, and counts all of them.
func (q *Queries) Destinations(ctx context.Context, organization uuid.UUID, now time.Time,
	limit, offset int) ([]Destination, int, error) {
	page, total, err := q.FindDestinations(ctx, organization, DestinationFilter{Limit: limit, Offset: offset})
	if err == nil {
		err = q.addSecrets(ctx, page, now)
	}
	return page, total, err
}

// DestinationFilter selects destinations. Zero fields don't restrict.
type DestinationFilter struct {
	// Text is a part of the name, of the external id or of the host of the address, in any case, or a prefix of the
	// id. The rest of the address is not searched: it may be secret.
	Text string
	// Status is one of a destination's, or "failing", see failingDestination.
	Status        string
	Limit, Offset int
}

// failingDestination is the condition on a row d of destinations that deliveries to it are being retried, or that it
// was disabled after failures.
var failingDestination = "(d.status = 'auto_disabled' OR EXISTS (SELECT FROM (SELECT d.id AS of) t " +
	"CROSS JOIN LATERAL (SELECT FROM deliveries.deliveries d WHERE d.destination = t.of AND " + deliverystate.Retried +
	" LIMIT 1) retried))"

var matchesDestination = ` WHERE d.organization = $1
	AND ($2 = '' OR strpos(lower(d.name), lower($2)) > 0 OR strpos(lower(d.external_id), lower($2)) > 0
	OR starts_with(d.id::text, lower($2))
		OR strpos(lower(substring(d.shown_url FROM '^[^:]*://(?:[^/?#@]*@)?([^/?#]*)')), lower($3)) > 0)
	AND ($4 = '' OR d.status = $4 OR $4 = 'failing' AND ` + failingDestination + ")"

// FindDestinations lists an organization's destinations that match a filter, without secrets, and counts them all:
// oldest first, failing ones by the length of their streaks.
func (q *Queries) FindDestinations(ctx context.Context, organization uuid.UUID,
	f DestinationFilter) ([]Destination, int, error) {
	order := " ORDER BY d.created_at, d.id"
	if f.Status == "failing" {
		order = " ORDER BY coalesce(h.consecutive_failures, 0) DESC, d.created_at, d.id"
	}
	args := []any{organization, f.Text, hostIn(f.Text), f.Status}
	page := statement{selectDestination + matchesDestination + order + " LIMIT $5 OFFSET $6",
		slices.Concat(args, []any{f.Limit, f.Offset})}
	count := statement{"SELECT count(*) FROM destinations.destinations d" + matchesDestination, args}
	if f.Text == "" && f.Status == "" {
		page = statement{selectDestination + " WHERE d.organization = $1" + order + " LIMIT $2 OFFSET $3",
			[]any{organization, f.Limit, f.Offset}}
		count = statement{countDestinations, args[:1]}
	}
	return counted(ctx, q.Pool, "destinations", destinationRow, page, count)
}

const countDestinations = "SELECT count(*) FROM destinations.destinations WHERE organization = $1"

// CountDestinations counts the destinations of an organization.
func (q *Queries) CountDestinations(ctx context.Context, organization uuid.UUID) (total int, err error) {
	return value[int](ctx, q.Pool, "destinations", countDestinations, organization)
}

// hostIn returns the host of an address, or the whole text if it isn't one.
func hostIn(text string) string {
	if at, err := url.Parse(text); err == nil && at.Host != "" {
		return at.Host
	}
	return text
}

func (q *Queries) addSecrets(ctx context.Context, destinations []Destination, now time.Time) error {
	ids := make([]uuid.UUID, len(destinations))
	for i := range destinations {
		ids[i] = destinations[i].ID
	}
	type secret struct {
		Destination uuid.UUID
		Secret
	}
	secrets, err := many(ctx, q.Pool, "secrets", pgx.RowToStructByPos[secret],
		`SELECT destination, id, sealed, created_at, expires_at FROM destinations.secrets
		WHERE destination = ANY($1) AND (expires_at IS NULL OR expires_at > $2) ORDER BY destination, revision DESC`, ids,
		now)
	for _, s := range secrets {
		at := &destinations[slices.Index(ids, s.Destination)]
		at.Secrets = append(at.Secrets, s.Secret)
	}
	return err
}

// PlainAddress is an unsealed address of a destination.
type PlainAddress struct {
	Destination uuid.UUID
	URL         string
}

// PlainAddresses calls each for the unsealed addresses of all organizations, as inPages does: those without a secret
// part, and those recorded before addresses were sealed.
func (q *Queries) PlainAddresses(ctx context.Context, each func(PlainAddress) error) error {
	return inPages(func(after PlainAddress) ([]PlainAddress, error) {
		return many(ctx, q.Pool, "addresses", pgx.RowToStructByPos[PlainAddress],
			`SELECT id, shown_url FROM destinations.destinations
			WHERE address IS NULL AND id > $1 ORDER BY id LIMIT $2`, after.Destination, historyPage)
	}, each)
}
