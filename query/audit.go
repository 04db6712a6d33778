package query

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
)

// AuditEntry is one change of a destination.
type AuditEntry struct {
	Destination  uuid.UUID  `json:"destination"`
	Organization *uuid.UUID `json:"organization"` // nil if unknown
	Revision     int64      `json:"revision"`     // of the destination's stream, or a day of disclosures
	Change
	Detail AuditDetail `json:"detail"`
}

// Change is the event by which a change was recorded.
type Change struct {
	Type          string     `json:"type"`       // the stored event's name: see docs/understand/events.md
	At            time.Time  `json:"at"`         // when the change took effect
	RecordedAt    time.Time  `json:"recordedAt"` // when the store recorded it
	Position      string     `json:"position"`   // Commit/Prepare
	EventID       uuid.UUID  `json:"eventId"`
	Commit        int64      `json:"-"` // with Prepare, its position in the global order
	Prepare       int64      `json:"-"`
	Actor         string     `json:"actor"`
	Reason        *string    `json:"reason"`
	CorrelationID *uuid.UUID `json:"correlationId"`
	CausationID   *uuid.UUID `json:"causationId"`
}

const changeColumns = `type, at, recorded_at, event_id, commit_position, prepare_position, actor, nullif(reason, ''),
	correlation, causation`

// scan reads some columns, changeColumns and detail.
func (c *Change) scan(row pgx.CollectableRow, before ...any) (detail []byte, err error) {
	err = row.Scan(append(before, &c.Type, &c.At, &c.RecordedAt, &c.EventID, &c.Commit, &c.Prepare, &c.Actor, &c.Reason,
		&c.CorrelationID, &c.CausationID, &detail)...)
	c.At, c.RecordedAt, c.Position = c.At.UTC(), c.RecordedAt.UTC(), fmt.Sprintf("%d/%d", c.Commit, c.Prepare)
	return detail, err
}

// Owner returns the organization, or uuid.Nil if it is unknown.
func (e AuditEntry) Owner() uuid.UUID {
	if e.Organization == nil {
		return uuid.Nil
	}
	return *e.Organization
}

// AuditDetail is the content of an entry, as the read model stores it and the API shows it; members that did not change
// are left out. A state follows from the details alone, independent of the events' names: URL comes with all settings,
// SecretID is new, Expiring end at ExpiresAt.
type AuditDetail struct {
	ExternalID string            `json:"externalId"`
	Name       string            `json:"name"`
	URL        string            `json:"url"` // without its secrets
	HasHeaders bool              `json:"hasHeaders"`
	Headers    map[string]string `json:"headers,omitempty"` // digests of their values by name, if recorded
	destination.Plain
	SecretID     uuid.UUID   `json:"secretId"`           // of the secret that starts
	Expiring     []uuid.UUID `json:"expiring,omitempty"` // secrets that get ExpiresAt
	ExpiresAt    time.Time   `json:"expiresAt"`
	Status       string      `json:"status"` // after the change
	StatusReason string      `json:"statusReason"`
	Shown        []string    `json:"shown,omitempty"`        // to the actor: secrets, address, headers
	ShownSecrets []uuid.UUID `json:"shownSecrets,omitempty"` // the ids of the secrets among them
}

// MarshalJSONTo implements json.MarshalerTo: zero members are left out.
func (d AuditDetail) MarshalJSONTo(to *jsontext.Encoder) error {
	type members AuditDetail
	return json.MarshalEncode(to, members(d), json.OmitZeroStructFields(true))
}

// AuditState is the state of a destination at a time.
type AuditState struct {
	Status       string            `json:"status"`       // enabled, disabled, auto_disabled, deleted
	StatusReason *string           `json:"statusReason"` // of an automatic disabling
	ExternalID   *string           `json:"externalId"`
	Name         string            `json:"name"`
	URL          string            `json:"url"`
	HasHeaders   bool              `json:"hasHeaders"`
	Headers      map[string]string `json:"headers"` // digests of their values by name; nil if not recorded
	destination.Answered
	Secrets       []AuditSecret       `json:"secrets"`       // in order of their start, including ended ones
	Revision      int64               `json:"revision"`      // of the last change that counts
	Subscriptions []AuditSubscription `json:"subscriptions"` // oldest first; see AddSubscriptions
}

// Settings returns the settings of the state, without sealed ones.
func (s AuditState) Settings() destination.Settings {
	shown := destination.Settings{Name: s.Name, URL: s.URL, Plain: destination.Plain(s.Answered)}
	if s.ExternalID != nil {
		shown.ExternalID = *s.ExternalID
	}
	return shown
}

// AuditSecret is a signing secret without its material.
type AuditSecret struct {
	ID        uuid.UUID  `json:"id"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"` // nil if it does not expire
	Active    bool       `json:"active"`    // whether it signs at that time
}

// AuditSubscription is a past state of a subscription.
type AuditSubscription struct {
	ID uuid.UUID `json:"id"`
	subscription.Answered
	Active    bool      `json:"active"`
	Reason    *string   `json:"reason"` // why it is inactive; nil if its owner switched it off
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	Revision  int64     `json:"revision"` // of its own stream
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

// AuditEntries calls each for the history of a destination from a revision on, as inPages does. A destination that
// never existed has no entries.
func (q *Queries) AuditEntries(ctx context.Context, destination uuid.UUID, from int64,
	each func(AuditEntry) error) error {
	return inPages(func(after AuditEntry) ([]AuditEntry, error) {
		if after.Destination != uuid.Nil {
			from = after.Revision + 1
		}
		return q.auditRows(ctx, "audit", "entries", "destination = $1 AND revision >= $2 ORDER BY revision LIMIT $3",
			destination, from, historyPage)
	}, each)
}

// Disclosures lists the latest disclosures of a destination's secrets, address or headers, newest first.
func (q *Queries) Disclosures(ctx context.Context, destination uuid.UUID, most int) ([]AuditEntry, error) {
	return q.auditRows(ctx, "disclosures", "disclosures", "destination = $1 ORDER BY commit_position DESC, "+
		"prepare_position DESC LIMIT $2", destination, most)
}

// DisclosureEntries calls each for all disclosures of a destination, oldest first, as AuditEntries does for its
// changes.
func (q *Queries) DisclosureEntries(ctx context.Context, destination uuid.UUID, each func(AuditEntry) error) error {
	return q.eachDisclosure(ctx, "destination = $1", destination, each)
}

func (q *Queries) eachDisclosure(ctx context.Context, where string, arg any, each func(AuditEntry) error) error {
	return inPages(func(after AuditEntry) ([]AuditEntry, error) {
		return q.auditRows(ctx, "disclosures", "disclosures", where+
			` AND (destination, commit_position, prepare_position) > ($2, $3, $4)
			ORDER BY destination, commit_position, prepare_position LIMIT $5`, arg,
			after.Destination, after.Commit, after.Prepare, historyPage)
	}, each)
}

// auditRows reads a table of the audit trail; all of them have the same columns.
func (q *Queries) auditRows(ctx context.Context, name, table, where string, args ...any) ([]AuditEntry, error) {
	return many(ctx, q.Pool, name, func(row pgx.CollectableRow) (e AuditEntry, err error) {
		detail, err := e.scan(row, &e.Destination, &e.Organization, &e.Revision)
		if err == nil {
			err = json.Unmarshal(detail, &e.Detail)
		}
		return e, err
	}, "SELECT destination, organization, revision, "+changeColumns+", detail FROM audit."+table+" WHERE "+where, args...)
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
			state = &AuditState{Secrets: []AuditSecret{}, Subscriptions: []AuditSubscription{}}
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
		s.ExternalID, s.Name, s.URL = nullable(d.ExternalID), d.Name, d.URL
		s.HasHeaders, s.Headers, s.Answered = d.HasHeaders, d.Headers, destination.Answered(d.Plain)
	}
	if d.Status != "" {
		s.Status, s.StatusReason = d.Status, nullable(d.StatusReason)
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

// AuditEssentials returns the changes of a destination from which its state at a time follows by AuditStateAt: the
// first one, those of secrets, and the last ones of settings and status. There may be thousands of others. It returns
// ErrNotFound if the destination never existed.
func (q *Queries) AuditEssentials(ctx context.Context, destination uuid.UUID, at time.Time) ([]AuditEntry, error) {
	const then = `revision < (
		SELECT coalesce(min(revision), 9223372036854775807) FROM audit.entries WHERE destination = $1 AND at > $2)`
	entries, err := q.auditRows(ctx, "audit", "entries", `destination = $1 AND (revision = 0 OR `+then+`
		AND (detail ? 'secretId' OR detail ? 'expiring' OR revision IN (
			SELECT max(revision) FILTER (WHERE detail ? part) FROM audit.entries, unnest(ARRAY['url', 'status']) part
			WHERE destination = $1 AND `+then+` GROUP BY part
			UNION ALL SELECT max(revision) FROM audit.entries WHERE destination = $1 AND `+then+`)))
		ORDER BY revision`, destination, at)
	if err == nil && len(entries) == 0 {
		err = ErrNotFound
	}
	return entries, err
}

// AddSubscriptions completes the state of a destination at a time with its subscriptions then. A deleted destination
// has none.
func (q *Queries) AddSubscriptions(ctx context.Context, destination uuid.UUID, to *AuditState, at time.Time) error {
	if to == nil || to.Status == "deleted" {
		return nil
	}
	subscriptions, err := many(ctx, q.Pool, "subscriptions on record", pgx.RowToStructByPos[AuditSubscription], `
		SELECT right(c.stream, 36)::uuid, d.settings->>'externalId',
			ARRAY(SELECT jsonb_array_elements_text(d.settings->'eventTypes')), d.settings->>'scopeKind',
			d.settings->>'feedType', coalesce(d.settings->'feeds', '[]'),
			coalesce(s.type LIKE 'subscription.activated.%', true), nullif(s.reason, ''), c.at, greatest(d.at, s.at),
			greatest(d.revision, s.revision)
		FROM audit.record c
		CROSS JOIN LATERAL (SELECT detail->'declaration' AS settings, at, revision FROM audit.record r
			WHERE r.stream = c.stream AND main AND at <= $2 AND detail ? 'declaration' ORDER BY revision DESC LIMIT 1) d
		LEFT JOIN LATERAL (SELECT type, detail->>'reason' AS reason, at, revision FROM audit.record r
			WHERE r.stream = c.stream AND main AND at <= $2 AND NOT detail ? 'declaration' ORDER BY revision DESC LIMIT 1) s
			ON true
		WHERE c.kind = 'destination' AND c.thing = $1::uuid::text AND c.revision = 0 AND c.stream LIKE 'subscription-%'
			AND s.type IS DISTINCT FROM 'subscription.deleted.v1'
		ORDER BY c.at, c.stream`, destination, at)
	for i := range subscriptions {
		s := &subscriptions[i]
		s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	}
	to.Subscriptions = append(to.Subscriptions, subscriptions...)
	return err
}
