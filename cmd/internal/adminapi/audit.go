package adminapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (a *API) auditRoutes(r routes) {
	r.bound.Get("/admin/audit", a.entries)
	r.bound.Get("/admin/audit/{kind}/{thing}", a.entries)
	r.bound.Get("/admin/audit/destinations", handle(a.findRecorded))
	r.bound.Get("/admin/audit/destinations/{id}", a.audit)
}

// findRecorded answers GET /admin/audit/destinations with the destinations that a text names: by the beginning of the
// id, or by an external id.
func (a *API) findRecorded(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "ref")
	ref := q.Text("ref")
	if ref == "" {
		q.Fail("ref", "must be the beginning of an id, or an external id")
	}
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	a.awaitRecord(r.Context())
	found, err := a.Queries.NamedOnRecord(r.Context(), ref, PrincipalOf(r).Organization, mostFound)
	return listed(found), err
}

// mostFound is how many destinations are listed that a text may name.
const mostFound = 10

// Audit is the history of a destination and its state at a time. Secret material is not part of it.
type Audit struct {
	Destination  uuid.UUID          `json:"destination"`
	Organization uuid.UUID          `json:"organization"`
	At           time.Time          `json:"at"`    // the time of the state
	State        *query.AuditState  `json:"state"` // null: the destination was not there yet
	Entries      []query.AuditEntry `json:"entries"`
	Disclosures  []query.AuditEntry `json:"disclosures"` // of something in full, the newest first, mostDisclosures of them
}

// mostDisclosures is how many a picture of the history has. An export has all.
const mostDisclosures = 100

// audit answers GET /admin/audit/destinations/{id} with the state and all entries, or exports the entries alone if the
// caller asks for NDJSON.
func (a *API) audit(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if wire.Accepts(r, mediaNDJSON) {
		a.exportAudit(w, r)
		return
	}
	handle(wire.With(pathID, a.showAudit))(w, r)
}

func (a *API) showAudit(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "at", "changes")
	at, brief := q.Time("at"), q.OneOf("changes", "none") != ""
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	a.awaitRecord(r.Context())
	until := at
	if !q.Has("at") {
		at = a.Now().UTC()
		until = query.AuditHorizon(at)
	}
	history, err := a.history(r.Context(), id, until, brief)
	if err == nil && !PrincipalOf(r).Sees(history[0].Owner()) {
		err = query.ErrNotFound
	}
	if err != nil {
		return wire.Reply{}, noHistory(err)
	}
	answer := Audit{
		Destination:  id,
		Organization: history[0].Owner(),
		At:           at,
		Entries:      []query.AuditEntry{},
		Disclosures:  []query.AuditEntry{},
	}
	if !brief {
		answer.Entries = history
		disclosures, err := a.Queries.Disclosures(r.Context(), id, mostDisclosures)
		if err != nil {
			return wire.Reply{}, err
		}
		answer.Disclosures = disclosures
	}
	state := query.AuditStateAt(history, at)
	if !q.Has("at") {
		state = query.AuditStateNow(history, at)
	}
	if err := a.Queries.AddSubscriptions(r.Context(), id, state, until); err != nil {
		return wire.Reply{}, err
	}
	answer.State = state
	return wire.OK(answer), nil
}

// history reads the changes of a destination: all, or only those from which its state at a time follows.
func (a *API) history(ctx context.Context, id uuid.UUID, at time.Time, brief bool) ([]query.AuditEntry, error) {
	if brief {
		return a.Queries.AuditEssentials(ctx, id, at)
	}
	return a.Queries.Audit(ctx, id)
}

// exportAudit writes one entry a line, as they are read. If it breaks off, so does the connection: a caller can't take
// a part for the whole.
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
	a.awaitRecord(r.Context())
	written := 0
	sees := PrincipalOf(r).Sees
	write := func(e query.AuditEntry) error {
		if written == 0 && !sees(e.Owner()) {
			return noHistory(query.ErrNotFound)
		}
		if written == 0 {
			ExportHeaders(w, "audit-"+id.String())
		}
		written++
		return writeLine(w, e)
	}
	err = a.Queries.AuditEntries(r.Context(), id, 0, write)
	if err == nil && written > 0 {
		err = a.Queries.DisclosureEntries(r.Context(), id, write)
	}
	if err == nil && written == 0 {
		err = noHistory(query.ErrNotFound)
	}
	switch {
	case err != nil && written == 0:
		wire.Events.WriteError(w, r, err)
	case err != nil:
		a.Log.WarnContext(r.Context(), "audit export broke off", "destination", id, "entries", written, "error", err)
		panic(http.ErrAbortHandler)
	}
}

func noHistory(err error) error {
	if errors.Is(err, query.ErrNotFound) {
		return &wire.Failure{
			Kind:  wire.NotFound,
			Issue: "no destination has or had this id: deleted ones keep theirs, an externalId is none",
			Cause: err,
		}
	}
	return err
}
