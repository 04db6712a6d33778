package adminapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/instant"
	"carillon/projections/audit"
	"carillon/query"
)

func (a *API) auditRoutes(r routes) {
	r.bound.Get("/admin/audit/destinations/{id}", a.audit)
}

// Audit is the history of a destination and what it was at a time. Secret material is not part of it.
type Audit struct {
	Destination  uuid.UUID    `json:"destination"`
	Organization uuid.UUID    `json:"organization"`
	At           time.Time    `json:"at"`    // the time of the state
	State        *AuditState  `json:"state"` // null: the destination was not there yet
	Entries      []AuditEntry `json:"entries"`
	Disclosures  []AuditEntry `json:"disclosures"` // of something in full, the newest first, mostDisclosures of them
}

// mostDisclosures is how many a picture of the history has. An export has all.
const mostDisclosures = 100

// AuditState is what a destination was.
type AuditState struct {
	Status                string        `json:"status"` // enabled, disabled, auto_disabled, deleted
	StatusReason          *string       `json:"statusReason"`
	ExternalID            *string       `json:"externalId"`
	Name                  string        `json:"name"`
	URL                   string        `json:"url"`
	HasHeaders            bool          `json:"hasHeaders"`
	DebounceWindowSeconds int           `json:"debounceWindowSeconds"`
	Secrets               []AuditSecret `json:"secrets"`  // the oldest first, ended ones too
	Revision              int64         `json:"revision"` // of the last entry that counts
}

// AuditSecret is a signing secret without its material.
type AuditSecret struct {
	ID        uuid.UUID  `json:"id"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt"` // null: never
	Active    bool       `json:"active"`    // it signs at the time of the state
}

// AuditEntry is one change, or says that something was shown in full.
type AuditEntry struct {
	Destination   uuid.UUID    `json:"destination"`
	Organization  *uuid.UUID   `json:"organization"`
	Revision      int64        `json:"revision"` // of the stream, from 0: the destination's, or that of a day's disclosures
	Type          string       `json:"type"`     // the stored event's name: see docs/understand/events.md
	At            time.Time    `json:"at"`       // when it took effect
	RecordedAt    time.Time    `json:"recordedAt"`
	Position      string       `json:"position"` // commit/prepare in the global order
	EventID       uuid.UUID    `json:"eventId"`
	Actor         string       `json:"actor"`
	Reason        *string      `json:"reason"`
	CorrelationID *uuid.UUID   `json:"correlationId"`
	CausationID   *uuid.UUID   `json:"causationId"`
	Detail        audit.Detail `json:"detail"` // members that did not change are absent
}

// audit answers GET /admin/audit/destinations/{id} with the state and all entries, or exports the entries alone where
// the caller asks for NDJSON.
func (a *API) audit(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if wire.Accepts(r, mediaNDJSON) {
		a.exportAudit(w, r)
		return
	}
	wire.Events.Handle(a.showAudit)(w, r)
}

func (a *API) showAudit(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	q := wire.Events.ParseQuery(r, "at")
	at := q.Time("at")
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	a.awaitAudit(r.Context(), id)
	history, err := a.Queries.Audit(r.Context(), id)
	if err == nil && !PrincipalOf(r).Sees(history[0].Organization) {
		err = query.ErrNotFound
	}
	if err != nil {
		return wire.Reply{}, noHistory(err)
	}
	answer := Audit{Destination: id, Organization: history[0].Organization, At: at, Entries: make([]AuditEntry, len(history))}
	for i, e := range history {
		answer.Entries[i] = AuditEntryOf(e)
	}
	disclosures, err := a.Queries.Disclosures(r.Context(), id, mostDisclosures)
	if err != nil {
		return wire.Reply{}, err
	}
	answer.Disclosures = make([]AuditEntry, len(disclosures))
	for i, e := range disclosures {
		answer.Disclosures[i] = AuditEntryOf(e)
	}
	if q.Has("at") {
		answer.State = auditState(query.AuditStateAt(history, at))
	} else {
		answer.At = a.Now().UTC()
		answer.State = auditState(query.AuditStateNow(history, answer.At))
	}
	return wire.OK(answer), nil
}

// exportAudit writes one entry a line, as they are read. Where it breaks off, so does the connection: a caller can't
// take a part for the whole.
func (a *API) exportAudit(w http.ResponseWriter, r *http.Request) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err == nil {
		q := wire.Events.ParseQuery(r, "at")
		if q.Has("at") {
			q.Fail("at", "has no effect on an export, which is the whole history: leave it out")
		}
		err = q.Err()
	}
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	a.awaitAudit(r.Context(), id)
	written := 0
	sees := PrincipalOf(r).Sees
	write := func(e query.AuditEntry) error {
		if written == 0 && !sees(e.Organization) {
			return noHistory(query.ErrNotFound)
		}
		if written == 0 {
			w.Header().Set("Content-Type", mediaNDJSON)
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			w.Header().Set("Content-Disposition", `attachment; filename="audit-`+id.String()+`.ndjson"`)
		}
		written++
		line, err := json.Marshal(AuditEntryOf(e), instant.JSON)
		if err != nil {
			return err
		}
		_, err = w.Write(append(line, '\n'))
		return err
	}
	err = a.Queries.AuditEntries(r.Context(), id, 0, write)
	if err == nil && written > 0 {
		err = a.Queries.DisclosureEntries(r.Context(), id, write)
	}
	switch {
	case err == nil && written == 0:
		wire.Events.WriteError(w, r, noHistory(query.ErrNotFound))
	case err != nil && written == 0:
		wire.Events.WriteError(w, r, err)
	case err != nil:
		a.Log.WarnContext(r.Context(), "audit export broke off", "destination", id, "entries", written, "error", err)
		panic(http.ErrAbortHandler)
	}
}

func noHistory(err error) error {
	if errors.Is(err, query.ErrNotFound) {
		return &wire.Failure{Kind: wire.NotFound, Issue: "no destination has or had this id: deleted ones keep theirs, an externalId is none", Cause: err}
	}
	return err
}

// awaitAudit waits until the read model shows what the destination's stream holds, and that of the disclosures of the
// day: an auditor sees what has happened, whichever node or process manager did it. Where the event store does not
// answer, what is there is shown.
func (a *API) awaitAudit(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	seen, err := a.Queries.AuditRevision(ctx, id)
	if err != nil {
		return // the query itself will say it
	}
	var newest eventstore.Position
	for stream, from := range map[string]eventstore.Revision{
		destination.Aggregate.Stream(id): eventstore.Revision(seen + 1), disclosure.Aggregate.Stream(disclosure.StreamID(id, a.Now())): 0,
	} {
		for recorded, err := range a.Commands.Store.Read(ctx, stream, from) {
			if err != nil {
				wire.Note(ctx, slog.Bool("notCompared", true))
				return
			}
			if newest.Before(recorded.Position) {
				newest = recorded.Position
			}
		}
	}
	if newest != eventstore.Start {
		a.await(ctx, newest, audit.ReadModel.Name)
	}
}

func auditState(s *query.AuditState) *AuditState {
	if s == nil {
		return nil
	}
	state := AuditState{
		Status: s.Status, StatusReason: wire.Nullable(s.StatusReason), ExternalID: wire.Nullable(s.ExternalID), Name: s.Name, URL: s.URL,
		HasHeaders: s.HasHeaders, DebounceWindowSeconds: s.DebounceWindowSeconds, Secrets: make([]AuditSecret, len(s.Secrets)), Revision: s.Revision,
	}
	for i, secret := range s.Secrets {
		state.Secrets[i] = AuditSecret(secret)
	}
	return &state
}

// AuditEntryOf is a change as it is exported.
func AuditEntryOf(e query.AuditEntry) AuditEntry {
	return AuditEntry{
		Destination: e.Destination, Organization: wire.Nullable(e.Organization), Revision: e.Revision, Type: e.Type, At: e.At, RecordedAt: e.RecordedAt,
		Position: strconv.FormatInt(e.Commit, 10) + "/" + strconv.FormatInt(e.Prepare, 10), EventID: e.EventID,
		Actor: e.Actor, Reason: wire.Nullable(e.Reason), CorrelationID: wire.Nullable(e.CorrelationID), CausationID: wire.Nullable(e.CausationID), Detail: audit.Detail(e.Detail),
	}
}
