package httpapi

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/command/sealing"
	"carillon/eventstore/panics"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/health"
	"carillon/projections/subscriptions"
	"carillon/query"
)

func (a *API) destinationRoutes(r routes) {
	r.write.Post("/events/destinations",
		wire.Events.Handle(wire.With(wire.Decode[createDestinationBody], a.createDestination)))
	a.destinationReads(r)
	r.write.Put("/events/destinations/{ref}", wire.Events.Handle(a.putDestination))
	r.write.Patch("/events/destinations/{ref}",
		wire.Events.Handle(wire.With2(wire.Decode[patchDestinationBody], a.destinationID, a.patchDestination)))
	r.write.Delete("/events/destinations/{ref}", wire.Events.Handle(wire.With(a.destinationID, a.deleteDestination)))
	r.write.Put("/events/notices", wire.Events.Handle(forNotices(a.putDestination)))
	r.write.Delete("/events/notices", wire.Events.Handle(forNotices(wire.With(a.destinationID, a.deleteDestination))))
	r.write.Post("/events/destinations/validate",
		wire.Events.Handle(wire.With(wire.Decode[validateBody], a.validateConfig)))
	r.write.Post("/events/destinations/{ref}/test", wire.Events.Handle(a.testDestination))
	r.write.Post("/events/destinations/{ref}/backfill",
		wire.Events.Handle(wire.With2(wire.Decode[backfillBody], a.destinationID, a.backfill)))
}

func (a *API) destinationReads(r routes) {
	r.read.Get("/events/destinations", wire.Events.Handle(a.listDestinations))
	r.read.Get("/events/destinations/{ref}",
		wire.Events.Handle(wire.NoQuery(wire.With(a.destination, a.getDestination))))
	r.read.Get("/events/notices",
		wire.Events.Handle(forNotices(wire.NoQuery(wire.With(a.destination, a.getDestination)))))
}

// forNotices answers GET, PUT and DELETE /events/notices: those of the destination for notices.
func forNotices(of wire.Handler) wire.Handler {
	return func(r *http.Request) (wire.Reply, error) {
		chi.RouteContext(r.Context()).URLParams.Add("ref", destination.NoticesExternalID)
		return of(r)
	}
}

// createDestination answers POST /events/destinations.
func (a *API) createDestination(r *http.Request, body createDestinationBody) (wire.Reply, error) {
	made, err := a.Commands.CreateDestination(r.Context(), callerOf(r), body.create())
	return a.createdDestination(r, made, err)
}

// createdDestination is the answer to a create, the only answer about a destination that has its secret in full.
func (a *API) createdDestination(
	r *http.Request, made command.ProbedDestination, refused error,
) (wire.Reply, error) {
	shown, err := a.changedDestination(r, made.Result, refused, fullSecrets)
	return wire.Created(createdDestinationJSON{shown, validationOf(made.Validation)}), err
}

// changedDestination shows a destination after a write, with its health as far as it is known, when the read model of
// destinations and the named others have seen the write, or returns its refusal. If the destination is not there then,
// it was deleted in the meantime.
func (a *API) changedDestination(
	r *http.Request, w command.Result[destination.State], refused error, show secretView, more ...string,
) (Destination, error) {
	if refused != nil {
		return Destination{}, refused
	}
	there := a.awaitRouting(r.Context(), w.Position, append(more, destinations.ReadModel.Name)...)
	found, err := a.Queries.Destination(r.Context(), callerOf(r).Organization, w.ID.String(), a.Now())
	if there && errors.Is(err, query.ErrNotFound) {
		return Destination{}, wire.NotFoundError(err, "destination")
	}
	shown := writtenDestination(w, a.Now())
	shown.Health = healthOf(found.Health, w.Value)
	return a.destinationOf(r.Context(), shown, show)
}

// healthOf leaves out a streak of failures from before a destination was enabled again, which the read model may still
// have.
func healthOf(h query.Health, s destination.State) query.Health {
	if s.Status == destination.StatusEnabled && h.StreakStartedAt != nil && h.StreakStartedAt.Before(s.SwitchedAt) {
		h.ConsecutiveFailures, h.StreakStartedAt = 0, nil
	}
	return h
}

// shownAtOnce is how many destinations of a list are prepared at one time: parts that a list shows in full for the
// first time that day are recorded, for each destination.
const shownAtOnce = 16

// listDestinations answers GET /events/destinations.
func (a *API) listDestinations(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "limit", "offset")
	limit, offset := q.Page(usualPage, mostPage)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	destinations, total, err := a.Queries.Destinations(r.Context(), callerOf(r).Organization, a.Now(), limit, offset)
	if err != nil {
		return wire.Reply{}, err
	}
	shown := make([]*Destination, len(destinations)) // nil means deleted right now
	work, ctx := errgroup.WithContext(r.Context())
	work.SetLimit(shownAtOnce)
	for i, d := range destinations {
		work.Go(panics.Task("request", func() error {
			j, err := a.destinationOf(ctx, d, maskedSecrets)
			if errors.Is(err, query.ErrNotFound) {
				return nil
			}
			shown[i] = &j
			return err
		}))
	}
	if err := work.Wait(); err != nil {
		return wire.Reply{}, err
	}
	list := make([]Destination, 0, len(destinations))
	for _, j := range shown {
		if j == nil {
			total--
			continue
		}
		list = append(list, *j)
	}
	return wire.OK(wire.PageOf(list, total, limit, offset)), nil
}

// getDestination answers GET /events/destinations/{ref}.
func (a *API) getDestination(r *http.Request, found query.Destination) (wire.Reply, error) {
	shown, err := a.destinationOf(r.Context(), found, maskedSecrets)
	return wire.OK(shown), err
}

// destination reads the one that the path's {ref} names.
func (a *API) destination(r *http.Request) (query.Destination, error) {
	ref, err := reference(r, "ref")
	if err != nil {
		return query.Destination{}, err
	}
	found, err := a.Queries.Destination(r.Context(), callerOf(r).Organization, ref, a.Now())
	return found, wire.NotFoundError(err, "destination")
}

// destinationID is the id of the destination that the path's {ref} names. It is all that a change needs: the command
// loads the destination itself.
func (a *API) destinationID(r *http.Request) (uuid.UUID, error) {
	ref, err := reference(r, "ref")
	if err != nil {
		return uuid.Nil, err
	}
	id, err := a.Queries.DestinationID(r.Context(), callerOf(r).Organization, ref)
	return id, wire.NotFoundError(err, "destination")
}

// putDestination answers PUT /events/destinations/{ref}: it creates or replaces. An externalId that is free becomes the
// new destination's; a UUID must be that of one.
func (a *API) putDestination(r *http.Request) (wire.Reply, error) {
	ref, err := givenReference(r, "ref")
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[putDestinationBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	if command.UUIDShaped(ref) {
		id, err := a.destinationID(r)
		if err != nil {
			return wire.Reply{}, err
		}
		changed, err := a.Commands.ReviseDestination(r.Context(), callerOf(r), command.ReviseDestination{
			ID:                  id,
			DestinationSettings: body.create("").DestinationSettings,
			Sets:                destination.FieldsAll &^ destination.FieldExternalID,
		})
		shown, err := a.changedDestination(r, changed, err, maskedSecrets)
		return wire.OK(shown), err
	}
	made, err := a.Commands.UpsertDestination(r.Context(), callerOf(r), command.UpsertDestination(body.create(ref)))
	if made.Created {
		return a.createdDestination(r, made, err)
	}
	shown, err := a.changedDestination(r, made.Result, err, maskedSecrets)
	return wire.OK(shown), err
}

// patchDestination answers PATCH /events/destinations/{ref}.
func (a *API) patchDestination(r *http.Request, body patchDestinationBody, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.ReviseDestination(r.Context(), callerOf(r), body.revise(id))
	var more []string
	if body.Status.Set {
		more = append(more, health.ReadModel.Name) // which counts from the beginning
	}
	shown, err := a.changedDestination(r, changed, err, maskedSecrets, more...)
	return wire.OK(shown), err
}

// deleteDestination answers DELETE /events/destinations/{ref}.
func (a *API) deleteDestination(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	deleted, err := a.Commands.DeleteDestination(r.Context(), callerOf(r), command.DeleteDestination{ID: id})
	return a.Changed(r, deleted.Position, err, wire.Done(), destinations.ReadModel.Name, subscriptions.ReadModel.Name,
		deliveries.ReadModel.Name, dispatching.Name, facts.Name)
}

// validateConfig answers POST /events/destinations/validate.
func (a *API) validateConfig(r *http.Request, body validateBody) (wire.Reply, error) {
	if err := a.Limiter.Take(r.Context(), callerOf(r).Organization); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.Commands.ValidateConfig(r.Context(), callerOf(r), command.ValidateConfig{
		URL: body.Config.Value.URL.Value, Headers: body.Config.Value.Headers.Value,
	})
	return wire.OK(validationOf(found)), err
}

// testDestination answers POST /events/destinations/{ref}/test.
func (a *API) testDestination(r *http.Request) (wire.Reply, error) {
	if _, err := reference(r, "ref"); err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	if err := a.Limiter.Take(r.Context(), callerOf(r).Organization); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	tested, err := a.Tester.Send(r.Context(), wire.TargetOf(found))
	if errors.Is(err, sealing.ErrShredded) || errors.Is(err, sealing.ErrDamaged) {
		return wire.Reply{}, a.untestable(r.Context(), found.ID)
	}
	return wire.OK(testedOf(tested)), err
}

// untestable returns why a destination can't be tested whose secrets or headers can't be opened.
func (a *API) untestable(ctx context.Context, id uuid.UUID) error {
	if err := a.notDeleted(ctx, id); err != nil {
		return err
	}
	return &wire.Failure{
		Kind: wire.Conflict,
		Issue: "the destination's secrets, address or headers can't be read any more: rotate its secret and set its " +
			"address and headers anew",
	}
}

// backfill answers POST /events/destinations/{ref}/backfill.
func (a *API) backfill(r *http.Request, body backfillBody, id uuid.UUID) (wire.Reply, error) {
	done, err := a.Commands.BackfillDestination(r.Context(), callerOf(r), command.BackfillDestination{
		Destination: id, Since: body.since, Until: body.until,
	})
	return a.Changed(r, done.Position, err, wire.OK(backfillJSON(done.Value)), deliveries.ReadModel.Name)
}
