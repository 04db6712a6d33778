package query

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Destination is a webhook destination with its health and its active secrets.
type Destination struct {
	ID           uuid.UUID
	Organization uuid.UUID
	ExternalID   string // empty if none
	Name         string
	// URL is the public part of the address if Address is set.
	URL string
	// Address is the whole URL, sealed. nil if URL is complete.
	Address               []byte
	Headers               []byte // sealed; nil if none
	DebounceWindowSeconds int
	MaxRequestsPerSecond  *float64
	Traceparent           bool
	Status                string  // enabled, disabled, auto_disabled
	StatusReason          *string // of an automatic disabling
	CreatedAt             time.Time
	UpdatedAt             time.Time
	Revision              int64 // of the destination's stream
	Health                Health
	Secrets               []Secret // active ones, newest first
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
	d.debounce_window_seconds, d.max_requests_per_second, d.traceparent,
		d.status, d.status_reason, d.created_at, d.updated_at, d.revision,
		coalesce(h.consecutive_failures, 0), h.streak_started_at, h.last_success_at, h.last_failure_at, h.last_error_message
	FROM destinations.destinations d LEFT JOIN health.health h ON h.destination = d.id`

func scanDestination(row pgx.CollectableRow) (Destination, error) {
	var d Destination
	h := &d.Health
	err := row.Scan(&d.ID, &d.Organization, &d.ExternalID, &d.Name, &d.URL, &d.Address, &d.Headers,
		&d.DebounceWindowSeconds, &d.MaxRequestsPerSecond, &d.Traceparent,
		&d.Status, &d.StatusReason, &d.CreatedAt, &d.UpdatedAt, &d.Revision,
		&h.ConsecutiveFailures, &h.StreakStartedAt, &h.LastSuccessAt, &h.LastFailureAt, &h.LastErrorMessage)
	return d, err
}

// Destination finds a destination by its UUID or external id, the UUID first, with the secrets that are active at
// now. It returns ErrNotFound if the organization has no such destination.
func (q *Queries) Destination(ctx context.Context, organization uuid.UUID, ref string,
	now time.Time) (Destination, error) {
	found, err := byRef(ref, func(column string, value any) (Destination, error) {
		rows, err := q.Pool.Query(ctx, selectDestination+" WHERE d.organization = $1 AND d."+column+" = $2", organization,
			value)
		if err != nil {
			return Destination{}, err
		}
		return pgx.CollectExactlyOneRow(rows, scanDestination)
	})
	if err != nil {
		return Destination{}, fmt.Errorf("destination: %w", err)
	}
	one := []Destination{found}
	if err := q.addSecrets(ctx, one, now); err != nil {
		return Destination{}, err
	}
	return one[0], nil
}

// DestinationID finds the id of a destination by its UUID or external id, as Destination does.
func (q *Queries) DestinationID(ctx context.Context, organization uuid.UUID, ref string) (uuid.UUID, error) {
	found, err := byRef(ref, func(column string, value any) (id uuid.UUID, err error) {
		err = q.Pool.QueryRow(ctx, "SELECT id FROM destinations.destinations WHERE organization = $1 AND "+column+" = $2",
			organization, value).
			Scan(&id)
		return id, err
	})
	if err != nil {
		return uuid.Nil, fmt.Errorf("destination: %w", err)
	}
	return found, nil
}

// byRef resolves a reference as a UUID if it has the form of one, then as an external id. The columns are named "id"
// and "external_id".
func byRef[T any](ref string, find func(column string, value any) (T, error)) (T, error) {
	if id, err := uuid.Parse(ref); err == nil && len(ref) == 36 {
		found, err := find("id", id)
		if !errors.Is(err, pgx.ErrNoRows) {
			return found, err
		}
	}
	found, err := find("external_id", ref)
	if errors.Is(err, pgx.ErrNoRows) {
		return found, ErrNotFound
	}
	return found, err
}

// Destinations lists an organization's destinations, oldest first, and counts all of them.
func (q *Queries) Destinations(ctx context.Context, organization uuid.UUID, now time.Time,
	limit, offset int) ([]Destination, int, error) {
	var (
		batch pgx.Batch
		page  []Destination
		total int
	)
	batch.Queue(selectDestination+" WHERE d.organization = $1 ORDER BY d.created_at, d.id LIMIT $2 OFFSET $3",
		organization, limit, offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanDestination)
			return err
		})
	batch.Queue("SELECT count(*) FROM destinations.destinations WHERE organization = $1", organization).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("destinations: %w", err)
	}
	if err := q.addSecrets(ctx, page, now); err != nil {
		return nil, 0, err
	}
	return page, total, nil
}

// DestinationFilter selects destinations. Zero fields don't restrict.
type DestinationFilter struct {
	// Text is a part of the name, of the external id or of the host of the address, in any case, or a prefix of the
	// id. The rest of the address is not searched: it may be secret.
	Text string
	// Status is one of a destination's, or "failing": its last attempt failed, or it was disabled after failures.
	Status        string
	Limit, Offset int
}

const matchesDestination = ` WHERE d.organization = $1
	AND ($2 = '' OR strpos(lower(d.name), lower($2)) > 0 OR strpos(lower(d.external_id), lower($2)) > 0
	OR starts_with(d.id::text, lower($2))
		OR strpos(lower(substring(d.shown_url FROM '^[^:]*://(?:[^/?#@]*@)?([^/?#]*)')), lower($3)) > 0)
	AND ($4 = '' OR d.status = $4 OR $4 = 'failing' AND (h.consecutive_failures > 0 OR d.status = 'auto_disabled'))`

// FindDestinations lists an organization's destinations that match a filter, without secrets, and counts them all:
// oldest first, failing ones by the length of their streaks.
func (q *Queries) FindDestinations(ctx context.Context, organization uuid.UUID,
	f DestinationFilter) ([]Destination, int, error) {
	var (
		batch pgx.Batch
		page  []Destination
		total int
	)
	order := " ORDER BY d.created_at, d.id"
	if f.Status == "failing" {
		order = " ORDER BY h.consecutive_failures DESC NULLS LAST, d.id"
	}
	batch.Queue(selectDestination+matchesDestination+order+" LIMIT $5 OFFSET $6", organization, f.Text, hostIn(f.Text),
		f.Status, f.Limit, f.Offset).
		Query(func(rows pgx.Rows) (err error) {
			page, err = pgx.CollectRows(rows, scanDestination)
			return err
		})
	count := "SELECT count(*) FROM destinations.destinations d LEFT JOIN health.health h ON h.destination = d.id" +
		matchesDestination
	args := []any{organization, f.Text, hostIn(f.Text), f.Status}
	if f.Text == "" && f.Status == "" {
		count, args = "SELECT count(*) FROM destinations.destinations WHERE organization = $1", args[:1]
	}
	batch.Queue(count, args...).QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("destinations: %w", err)
	}
	return page, total, nil
}

// CountDestinations counts the destinations of an organization.
func (q *Queries) CountDestinations(ctx context.Context, organization uuid.UUID) (total int, err error) {
	err = q.Pool.QueryRow(ctx, "SELECT count(*) FROM destinations.destinations WHERE organization = $1",
		organization).Scan(&total)
	if err != nil {
		return 0, fmt.Errorf("destinations: %w", err)
	}
	return total, nil
}

// hostIn returns the host of an address, or the whole text if it isn't one.
func hostIn(text string) string {
	if at, err := url.Parse(text); err == nil && at.Host != "" {
		return at.Host
	}
	return text
}

func (q *Queries) addSecrets(ctx context.Context, destinations []Destination, now time.Time) error {
	at := make(map[uuid.UUID]*Destination, len(destinations))
	ids := make([]uuid.UUID, len(destinations))
	for i := range destinations {
		ids[i], at[destinations[i].ID] = destinations[i].ID, &destinations[i]
	}
	rows, err := q.Pool.Query(ctx, `SELECT destination, id, sealed, created_at, expires_at FROM destinations.secrets
		WHERE destination = ANY($1) AND (expires_at IS NULL OR expires_at > $2) ORDER BY destination, revision DESC`, ids,
		now)
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	var (
		destination uuid.UUID
		secret      Secret
	)
	_, err = pgx.ForEachRow(rows, []any{&destination, &secret.ID, &secret.Sealed, &secret.CreatedAt, &secret.ExpiresAt},
		func() error {
			at[destination].Secrets = append(at[destination].Secrets, secret)
			secret = Secret{}
			return nil
		})
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	return nil
}

// DestinationNames returns the names of some destinations of an organization, by id.
func (q *Queries) DestinationNames(ctx context.Context, organization uuid.UUID,
	ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := q.Pool.Query(ctx,
		"SELECT id, name FROM destinations.destinations WHERE organization = $1 AND id = ANY($2)", organization, ids)
	if err != nil {
		return nil, fmt.Errorf("names of destinations: %w", err)
	}
	names := map[uuid.UUID]string{}
	var (
		id   uuid.UUID
		name string
	)
	if _, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error { names[id] = name; return nil }); err != nil {
		return nil, fmt.Errorf("names of destinations: %w", err)
	}
	return names, nil
}

// PlainAddress is an unsealed address of a destination.
type PlainAddress struct {
	Destination uuid.UUID
	URL         string
}

// PlainAddresses calls each for the unsealed addresses of all organizations: those without a secret part, and those
// recorded before addresses were sealed. It holds no connection during the calls, and stops at the first error of
// each and returns it.
func (q *Queries) PlainAddresses(ctx context.Context, each func(PlainAddress) error) error {
	after := uuid.Nil
	for {
		rows, err := q.Pool.Query(ctx, `SELECT id, shown_url FROM destinations.destinations
			WHERE address IS NULL AND id > $1 ORDER BY id LIMIT $2`, after, historyPage)
		if err != nil {
			return fmt.Errorf("addresses: %w", err)
		}
		page, err := pgx.CollectRows(rows, pgx.RowToStructByPos[PlainAddress])
		if err != nil {
			return fmt.Errorf("addresses: %w", err)
		}
		for _, address := range page {
			if err := each(address); err != nil {
				return err
			}
			after = address.Destination
		}
		if len(page) < historyPage {
			return nil
		}
	}
}
