package adminapi

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	operators "carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// Seal signs tree heads of the log, and proves events by them.
type Seal interface {
	// Seal signs heads of what is in the log now: none if nothing is new.
	Seal(ctx context.Context, by eventstore.Metadata) ([]seal.Head, error)
	// Last returns the newest head and how many there are; nil if there is none.
	Last(ctx context.Context) (head *seal.Head, heads uint64, err error)
	// Export writes the sealed events that are wanted with proofs; see treeheads.Sealer.
	Export(ctx context.Context, to io.Writer, wanted treeheads.Wanted, begin func()) error
	// Public returns the key that this process's heads are verified by.
	Public() ed25519.PublicKey
}

func (a *API) sealRoutes(r routes) {
	r.bound.Get("/admin/seal", handle(a.lastSeal))
	r.operators.Post("/admin/seal", handle(wire.EmptyBody(a.sealNow)))
	r.bound.Get("/admin/seal/exports/{id}", a.exportProof)
}

// SealState is the newest tree head of the log.
type SealState struct {
	Head  *seal.Head        `json:"head"`  // null: there is none
	Heads uint64            `json:"heads"` // in the log
	New   int               `json:"new"`   // signed by this request
	Next  *time.Time        `json:"next"`  // by then another one is signed, if anything is new; null: there is none
	Key   ed25519.PublicKey `json:"key"`   // of the process that answers
}

// lastSeal answers GET /admin/seal.
func (a *API) lastSeal(r *http.Request) (wire.Reply, error) { return a.sealState(r.Context(), 0) }

func (a *API) sealState(ctx context.Context, signed int) (wire.Reply, error) {
	head, heads, err := a.Seal.Last(ctx)
	if err != nil {
		return wire.Reply{}, err
	}
	state := SealState{
		Head:  head,
		Heads: heads,
		New:   signed,
		Key:   a.Seal.Public(),
	}
	if head != nil {
		state.Next = new(treeheads.NextBy(head, a.Now()))
	}
	return wire.OK(state), nil
}

// sealNow answers POST /admin/seal.
func (a *API) sealNow(r *http.Request) (wire.Reply, error) {
	by := operator(r)
	heads, err := a.Seal.Seal(r.Context(), eventstore.Metadata{
		Actor:         by.Actor,
		CorrelationID: by.RequestID,
		CausationID:   by.RequestID,
		Reason:        by.Reason,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	return a.sealState(r.Context(), len(heads))
}

// provable are the categories of streams whose ids callers know.
var provable = []string{
	organization.Aggregate.Category,
	feed.Aggregate.Category,
	source.Aggregate.Category,
	destination.Aggregate.Category,
	subscription.Aggregate.Category,
	clientcertificate.Aggregate.Category,
	publication.Aggregate.Category,
	delivery.Aggregate.Category,
	happening.Aggregate.Category,
	item.Aggregate.Category,
	operators.Aggregate.Category,
	auditor.Aggregate.Category,
}

// exportProof answers GET /admin/seal/exports/{id} with the stored events of a thing and the proof of each. If it
// breaks off, so does the connection.
func (a *API) exportProof(w http.ResponseWriter, r *http.Request) {
	begun := false
	err := a.writeProof(w, r, func(id uuid.UUID) {
		begun = true
		ExportHeaders(w, "proof-"+id.String())
	})
	switch {
	case err != nil && begun:
		a.Log.WarnContext(r.Context(), "export with proofs broke off", "error", err)
		panic(http.ErrAbortHandler)
	case err != nil:
		wire.Events.WriteError(w, r, err)
	}
}

func (a *API) writeProof(w io.Writer, r *http.Request, begin func(uuid.UUID)) error {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return err
	}
	q := wire.Events.ParseQuery(r, "since")
	since := q.Int("since", 0, 0, math.MaxInt)
	if err := q.Err(); err != nil {
		return err
	}
	a.awaitRecord(r.Context())
	linked, err := a.Queries.StreamsOfDestination(r.Context(), id)
	if err != nil {
		return err
	}
	err = a.Seal.Export(r.Context(), w, treeheads.Wanted{
		ID:           id,
		Categories:   provable,
		Linked:       linked,
		Organization: PrincipalOf(r).Organization,
		Since:        uint64(since), //nolint:gosec // not negative
	}, func() { begin(id) })
	gone, isGone := errors.AsType[*treeheads.GoneError](err)
	switch {
	case isGone:
		return &wire.Failure{
			Kind:  wire.NotFound,
			Issue: gone.Error(),
			Cause: err,
		}
	case errors.Is(err, treeheads.ErrUnsealed):
		return &wire.Failure{
			Kind:  wire.Conflict,
			Issue: "the log has no tree head yet: run \"carillon audit seal\" first",
			Cause: err,
		}
	case errors.Is(err, treeheads.ErrNothing):
		return &wire.Failure{
			Kind:  wire.NotFound,
			Issue: "no sealed event has this id: is it right? What is newer than the last head is sealed within the hour",
			Cause: err,
		}
	case errors.Is(err, treeheads.ErrSince):
		return &wire.Failure{
			Kind:  wire.BadQuery,
			Field: "since",
			Issue: "must be the size of an earlier tree head",
			Cause: err,
		}
	}
	return err
}
