package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// AuditEntry is one change of a destination.
type AuditEntry struct {
	Destination   uuid.UUID
	Organization  uuid.UUID // uuid.Nil if unknown
	Revision      int64     // of the destination's stream, from 0
	Type          string    // the stored event's name
	At            time.Time // when the change took effect
	RecordedAt    time.Time // when the store recorded it
	EventID       uuid.UUID
	Commit        int64 // with Prepare, its position in the global order
	Prepare       int64
	Actor         string
	Reason        string
	CorrelationID uuid.UUID // uuid.Nil if there is none
	CausationID   uuid.UUID // uuid.Nil if there is none
	Detail        AuditDetail
}

// AuditDetail is audit.Detail as stored: queries know rows, not the packages that write them. Unchanged settings are
// zero.
type AuditDetail struct {
	ExternalID            string            `json:"externalId,omitempty"`
	Name                  string            `json:"name,omitempty"`
	URL                   string            `json:"url,omitempty"` // all settings come with it
	HasHeaders            bool              `json:"hasHeaders,omitzero"`
	Headers               map[string]string `json:"headers,omitempty"` // digests of their values by name
	DebounceWindowSeconds int               `json:"debounceWindowSeconds,omitzero"`
	MaxRequestsPerSecond  float64           `json:"maxRequestsPerSecond,omitzero"`
	Traceparent           bool              `json:"traceparent,omitzero"`
	SecretID              uuid.UUID         `json:"secretId,omitzero"`  // of the secret that starts
	Expiring              []uuid.UUID       `json:"expiring,omitempty"` // secrets that get ExpiresAt
	ExpiresAt             time.Time         `json:"expiresAt,omitzero"`
	Status                string            `json:"status,omitempty"` // after the change
	StatusReason          string            `json:"statusReason,omitempty"`
	Shown                 []string          `json:"shown,omitempty"`        // to the actor: secrets, address, headers
	ShownSecrets          []uuid.UUID       `json:"shownSecrets,omitempty"` // the ids of the secrets among them
}

// AuditState is the state of a destination at a time.
type AuditState struct {
	Revision              int64  // of the last change that counts
	Status                string // enabled, disabled, auto_disabled, deleted
	StatusReason          string // of an automatic disabling
	ExternalID            string
	Name                  string
	URL                   string
	HasHeaders            bool
	Headers               map[string]string // digests of their values by name; nil if they were not recorded
	DebounceWindowSeconds int
	MaxRequestsPerSecond  float64 // 0 means no limit
	Traceparent           bool
	Secrets               []AuditSecret  // in order of their start, including ended ones
	Subscriptions         []Subscription // oldest first; see AddSubscriptions
}

// AuditSecret is a signing secret without its material.
type AuditSecret struct {
	ID        uuid.UUID
	CreatedAt time.Time
	ExpiresAt *time.Time // nil if it does not expire
	Active    bool       // whether it signs at that time
}

// Audit returns the history of a destination, deleted or not, oldest change first. It returns ErrNotFound if the
// destination never existed.
func (q *Queries) Audit(ctx context.Context, destination uuid.UUID) ([]AuditEntry, error) {
	var entries []AuditEntry
	err := q.AuditEntries(ctx, destination, 0, func(e AuditEntry) error {
		entries = append(entries, e)
		return nil
	})
	if err == nil && entries == nil {
		err = ErrNotFound
	}
	return entries, err
}

// AuditEntries calls each for the history of a destination from a revision on. It holds no connection during the
// calls, and stops at the first error of each and returns it. A destination that never existed has no entries.
func (q *Queries) AuditEntries(ctx context.Context, destination uuid.UUID, from int64,
	each func(AuditEntry) error) error {
	for {
		page, err := q.auditPage(ctx, destination, from)
		if err != nil {
			return fmt.Errorf("audit: %w", err)
		}
		for _, e := range page {
			if err := each(e); err != nil {
				return err
			}
			from = e.Revision + 1
		}
		if len(page) < historyPage {
			return nil
		}
	}
}

func (q *Queries) auditPage(ctx context.Context, destination uuid.UUID, from int64) ([]AuditEntry, error) {
	return q.auditRows(ctx, "entries", "destination = $1 AND revision >= $2 ORDER BY revision LIMIT $3", destination, from,
		historyPage)
}

// auditRows reads a table of the audit trail; all of them have the same columns.
func (q *Queries) auditRows(ctx context.Context, table, where string, args ...any) ([]AuditEntry, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT destination, organization, revision, type, at, recorded_at, event_id, commit_position, prepare_position, actor,
			coalesce(reason, ''), correlation, causation, detail
		FROM audit.`+table+` WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e AuditEntry, err error) {
		var organization, correlation, causation uuid.NullUUID
		var detail []byte
		err = row.Scan(&e.Destination, &organization, &e.Revision, &e.Type, &e.At, &e.RecordedAt, &e.EventID, &e.Commit,
			&e.Prepare,
			&e.Actor, &e.Reason, &correlation, &causation, &detail)
		if err != nil {
			return e, err
		}
		e.Organization, e.CorrelationID, e.CausationID = organization.UUID, correlation.UUID, causation.UUID
		e.At, e.RecordedAt = e.At.UTC(), e.RecordedAt.UTC()
		return e, json.Unmarshal(detail, &e.Detail)
	})
}

// AuditStateAt folds a history, from its beginning, into the state at a time. It stops at the first later change:
// clocks of several nodes differ a little, and this way it returns only states in which the destination has been. It
// returns nil before the first change.
func AuditStateAt(history []AuditEntry, at time.Time) *AuditState {
	var state *AuditState
	for _, e := range history {
		if e.At.After(at) {
			break
		}
		if state == nil {
			state = &AuditState{}
		}
		state.apply(e)
	}
	if state != nil {
		state.activate(at)
	}
	return state
}

// AuditHorizon is the time up to which changes count at a present time: clocks of other nodes may be ahead.
func AuditHorizon(now time.Time) time.Time { return now.AddDate(1, 0, 0) }

// AuditStateNow returns the state after the whole history, with the secrets that are active now.
func AuditStateNow(history []AuditEntry, now time.Time) *AuditState {
	for _, e := range history {
		if e.At.After(now) {
			now = e.At // by the clock of another node
		}
	}
	return AuditStateAt(history, now)
}

func (s *AuditState) apply(e AuditEntry) {
	d := e.Detail
	s.Revision = e.Revision
	if d.URL != "" {
		s.ExternalID, s.Name, s.URL = d.ExternalID, d.Name, d.URL
		s.HasHeaders, s.Headers, s.DebounceWindowSeconds = d.HasHeaders, d.Headers, d.DebounceWindowSeconds
		s.MaxRequestsPerSecond = d.MaxRequestsPerSecond
		s.Traceparent = d.Traceparent
	}
	if d.Status != "" {
		s.Status, s.StatusReason = d.Status, d.StatusReason
	}
	for i := range s.Secrets {
		if slices.Contains(d.Expiring, s.Secrets[i].ID) {
			s.Secrets[i].ExpiresAt = &d.ExpiresAt
		}
	}
	if d.SecretID != uuid.Nil {
		s.Secrets = append(s.Secrets, AuditSecret{ID: d.SecretID, CreatedAt: e.At})
	}
}

// activate marks the secrets that sign at a time. All of them end with the destination.
func (s *AuditState) activate(at time.Time) {
	for i := range s.Secrets {
		secret := &s.Secrets[i]
		secret.Active = s.Status != "deleted" && (secret.ExpiresAt == nil || at.Before(*secret.ExpiresAt))
	}
}
