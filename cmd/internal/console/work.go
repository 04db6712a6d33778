package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections/deliveries"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

const (
	replayKind   = "replay"
	backfillKind = "backfill"

	workRunning = "running"
	workDone    = "done"
	workStopped = "stopped"

	maxReplayed  = 10_000           // deliveries of one replay, as of one backfill
	replayBatch  = 100              // read and recorded as done at a time
	maxReplayers = 8                // concurrent ones
	workTimeout  = 30 * time.Second // after which work counts as interrupted
)

// Work is a requested operation on many deliveries.
type Work struct {
	ID, Organization uuid.UUID
	Destination      uuid.UUID // uuid.Nil means all

	Kind         string // replay, backfill
	Status, Type string // the filter
	Since, Until time.Time
	Actor        string
	Total        int
	Done         int
	Refused      int // of Done
	AfterAt      time.Time
	AfterID      uuid.UUID // the last completed one
	State        string    // running, done, stopped
	Message      string    // why it was stopped
	Beat         time.Time // last heartbeat of the worker
	Reason       string    // of the request. Optional
}

// Works stores work, for all nodes.
type Works interface {
	Begin(ctx context.Context, w Work) error
	// Advance records progress, or returns query.ErrNotFound if another worker has taken the work over: its Beat is
	// not the known one.
	Advance(ctx context.Context, w Work, now time.Time) error
	// Take takes over work that was stopped, or whose worker has been silent since a time, or returns
	// query.ErrNotFound.
	Take(ctx context.Context, organization, id uuid.UUID, now, heard time.Time) (Work, error)
	Find(ctx context.Context, organization, id uuid.UUID) (Work, error)
}

// workers work in the background while the console runs.
type workers struct {
	mu      sync.Mutex
	ctx     context.Context // nil unless the console runs
	running sync.WaitGroup
}

// start runs work in the background once it is recorded. If the console does not run, nothing is recorded.
func (w *workers) start(record func() (Work, error), do func(context.Context, Work)) (Work, error) {
	ctx, err := w.enter()
	if err != nil {
		return Work{}, err
	}
	defer w.running.Done()
	recorded, err := record()
	if err == nil {
		w.running.Go(panics.Func("console work", func() { do(ctx, recorded) }))
	}
	return recorded, err
}

// enter has the end of the console wait for the caller, too.
func (w *workers) enter() (context.Context, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.ctx.Err() != nil {
		return nil, &wire.Failure{Kind: wire.Unavailable, Issue: notRunning}
	}
	w.running.Add(1)
	return w.ctx, nil
}

func (w *workers) open(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx = ctx
}

func (c *Console) workRoutes(r chi.Router) {
	r.Get("/destinations/{id}/{kind:replay|backfill}", c.page(c.askWork))
	r.Post("/destinations/{id}/{kind:replay|backfill}", c.act(c.beginWork))
	r.Get("/destinations/{id}/work/{work}", c.page(c.showWork))
	r.Post("/destinations/{id}/work/{work}", c.act(c.resumeWork))
	c.replayAllRoutes(r)
}

// workAsked is the page before the work: its description, and the number of deliveries.
type workAsked struct {
	Destination query.Destination
	Kind        string
	Filter      deliveryForm
	Asked       bool // whether Count is known
	Count       int
	More        bool // than Count
	Most        int
	TooMany     bool
	Presets     []preset
}

// askWork answers GET /console/destinations/{id}/replay and /backfill.
func (c *Console) askWork(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	shown := workAsked{
		Destination: found,
		Kind:        chi.URLParam(v.Request, "kind"),
		Filter:      formOf(v.URL.Query(), c.Now().UTC()),
		Most:        maxReplayed,
	}
	shown.Presets = presetsOf(v.URL)
	title := map[string]string{replayKind: "Send many again", backfillKind: "Send missed events"}[shown.Kind]
	if shown.Kind == backfillKind && shown.Filter.Since == "" {
		return screen{Title: title, Template: "work", Data: shown}, nil
	}
	w, more, err := c.workOf(v, found, shown.Kind, shown.Filter)
	shown.Asked, shown.Count, shown.More, shown.TooMany = true, w.Total, more, w.Total > maxReplayed
	return screen{Title: title, Template: "work", Data: shown}, err
}

// describedWork returns the work on the deliveries of a filter that a form describes, and the filter.
func (c *Console) describedWork(v *visit, form deliveryForm) (Work, query.DeliveryFilter, error) {
	filter, err := form.read()
	if err != nil {
		return Work{}, filter, err
	}
	now := c.Now().UTC()
	if filter.Until.IsZero() || filter.Until.After(now) {
		filter.Until = now
	}
	return Work{
		ID:           uuid.New(),
		Organization: v.organization(),
		Status:       form.Status,
		Type:         strings.Join(filter.Types, ","),
		Since:        filter.Since,
		Until:        filter.Until,
		AfterAt:      filter.Since,
		State:        workRunning,
		Actor:        v.session.Actor(),
		Beat:         now.Truncate(time.Microsecond),
		Reason:       v.reason,
	}, filter, nil
}

// workOf returns the work that a form describes, with the number of its deliveries, or of those that were counted.
func (c *Console) workOf(
	v *visit, to query.Destination, kind string, form deliveryForm,
) (w Work, more bool, err error) {
	w, filter, err := c.describedWork(v, form)
	if err != nil {
		return w, false, err
	}
	w.Destination, w.Kind = to.ID, kind
	if kind == backfillKind {
		counted, err := c.Commands.CountBackfill(v.Context(), v.caller(), command.BackfillDestination{
			Destination: to.ID,
			Since:       w.Since,
			Until:       w.Until,
		})
		w.Total = counted.Events
		return w, counted.More, err
	}
	replayable := deliverystate.SetOf(deliverystate.Succeeded, deliverystate.Failed)
	if filter.States == 0 {
		filter.States = replayable
	}
	if filter.States&^replayable != 0 {
		return w, false, wire.Fail(wire.BadQuery, "status", "must be succeeded or failed: others have not completed, or "+
			"can't be sent again")
	}
	_, w.Total, err = c.Queries.Deliveries(v.Context(), v.organization(), to.ID, filter, c.Now().UTC())
	return w, false, err
}

// beginWork answers POST /console/destinations/{id}/replay and /backfill.
func (c *Console) beginWork(v *visit) (string, error) {
	found, err := c.destination(v)
	if err != nil {
		return "", err
	}
	w, _, err := c.workOf(v, found, chi.URLParam(v.Request, "kind"), formOf(v.PostForm, c.Now().UTC()))
	if err != nil {
		return "", err
	}
	return c.startWork(v, w)
}

// startWork starts work in the background, and returns the address of its progress.
func (c *Console) startWork(v *visit, w Work) (string, error) {
	if w.Total > maxReplayed {
		return "", wire.Fail(wire.Invalid, "since", tooManyToReplay, w.Total, maxReplayed)
	}
	w, err := c.workers.start(func() (Work, error) { return w, c.Works.Begin(v.Context(), w) }, c.work)
	return v.workPath(w), err
}

func (v *visit) workPath(w Work) string {
	if w.Destination == uuid.Nil {
		return v.to("/work/" + w.ID.String())
	}
	return v.to("/destinations/" + w.Destination.String() + "/work/" + w.ID.String())
}

// workView is work and its progress.
type workView struct {
	Work

	Destination query.Destination
	Interrupted bool
	Words       string
}

// showWork answers GET /console/destinations/{id}/work/{work}.
func (c *Console) showWork(v *visit) (screen, error) {
	found, err := c.destination(v)
	if err != nil {
		return screen{}, err
	}
	return c.progressOf(v, found, "Sending to "+found.Name)
}

// progressOf shows work for a destination, or for all if it has no id.
func (c *Console) progressOf(v *visit, found query.Destination, title string) (screen, error) {
	shown := workView{Destination: found}
	w, err := c.Works.Find(v.Context(), v.organization(), v.id("work"))
	if err == nil && w.Destination != found.ID {
		err = query.ErrNotFound
	}
	shown.Work, shown.Words = w, w.words()
	shown.Interrupted = w.State == workStopped || w.State == workRunning && c.Now().Sub(w.Beat) > workTimeout
	return screen{Title: title, Template: "working", Data: shown}, err
}

// resumeWork answers POST /console/destinations/{id}/work/{work}: it resumes interrupted work.
func (c *Console) resumeWork(v *visit) (string, error) {
	now := c.Now().UTC().Truncate(time.Microsecond)
	w, err := c.workers.start(func() (Work, error) {
		return c.Works.Take(v.Context(), v.organization(), v.id("work"), now, now.Add(-workTimeout))
	}, c.work)
	return v.workPath(w), err
}

// words describes the progress.
func (w Work) words() string {
	text := fmt.Sprintf(workDoneOf, w.Done, w.Total)
	switch {
	case w.Refused == 0:
	case w.Kind == backfillKind:
		text += fmt.Sprintf(hadThem, w.Refused)
	default:
		text += fmt.Sprintf(couldNotAsk, w.Refused)
	}
	return text
}

// work runs until it is done or can't continue.
func (c *Console) work(ctx context.Context, w Work) {
	err := c.doWork(ctx, &w)
	switch {
	case err == nil:
		w.State = workDone
	case errors.Is(err, query.ErrNotFound), ctx.Err() != nil:
		return // another worker has it, or may have it: it was interrupted
	default:
		w.State, w.Message = workStopped, wire.FailureOf(err).Error()
		c.Log.WarnContext(ctx, "console work stopped", "work", w.ID.String(), "error", err)
	}
	if err := c.advance(ctx, &w); err != nil {
		c.Log.WarnContext(ctx, "console work failed", "work", w.ID.String(), "error", err)
	}
}

func (c *Console) doWork(ctx context.Context, w *Work) error {
	by := command.Caller{
		Organization: w.Organization,
		Actor:        w.Actor,
		RequestID:    w.ID,
		Reason:       w.Reason,
	}
	if w.Kind == backfillKind {
		return c.backfill(ctx, by, w)
	}
	states, _ := deliverystate.Named(w.Status)
	types, err := readTypes(w.Type)
	if err != nil {
		return err
	}
	filter := query.DeliveryFilter{
		States: states,
		Types:  types,
		Since:  w.Since,
		Until:  w.Until,
		Limit:  replayBatch,
	}
	var newest eventstore.Position
	for {
		part, err := c.nextPart(ctx, w, filter)
		if err != nil {
			return err
		}
		if len(part) == 0 {
			c.See(ctx, newest, deliveries.ReadModel.Name)
			return nil
		}
		refused, sent, err := c.replayPart(ctx, by, part)
		if err != nil {
			return err
		}
		if newest.Before(sent) {
			newest = sent
		}
		last := part[len(part)-1]
		w.Done, w.Refused, w.AfterAt, w.AfterID = w.Done+len(part), w.Refused+refused, last.CreatedAt, last.ID
		w.Total = max(w.Total, w.Done)
		if err := c.advance(ctx, w); err != nil {
			return err
		}
	}
}

// sendAgain makes a delivery that waits due now, and requests a replay of any other.
func (c *Console) sendAgain(ctx context.Context, by command.Caller, d query.Delivery) (eventstore.Position, error) {
	if pendingStates.Has(d.State) {
		retried, err := c.Commands.RetryDelivery(ctx, by, command.RetryDelivery{
			Delivery:    d.ID,
			Destination: d.Destination,
		})
		return retried.Position, err
	}
	replayed, err := c.Commands.ReplayDelivery(ctx, by, command.ReplayDelivery{
		Delivery:    d.ID,
		Destination: d.Destination,
		FeedID:      query.Of(d.Event.FeedID),
	})
	return replayed.Position, err
}

// replayPart requests that each is sent again. It returns the number of refused ones, and the newest event.
func (c *Console) replayPart(
	ctx context.Context, by command.Caller, part []query.Delivery,
) (refused int, newest eventstore.Position, err error) {
	var mu sync.Mutex
	group, asking := errgroup.WithContext(ctx)
	group.SetLimit(maxReplayers)
	for _, d := range part {
		group.Go(panics.Task("console work", func() error {
			sent, err := c.sendAgain(asking, by, d)
			mu.Lock()
			defer mu.Unlock()
			if newest.Before(sent) {
				newest = sent
			}
			if refusal := (*command.Refusal)(nil); errors.As(err, &refusal) &&
				(refusal.Kind == command.Exists || refusal.Kind == command.Conflict) {
				refused++
				return nil
			}
			return err
		}))
	}
	err = group.Wait()
	return refused, newest, err
}

// backfill creates the missed deliveries. Deliveries from before an interruption are not created again.
func (c *Console) backfill(ctx context.Context, by command.Caller, w *Work) error {
	w.Done = 0
	var mu sync.Mutex
	done, err := c.Commands.BackfillDestination(ctx, by, command.BackfillDestination{
		Destination: w.Destination,
		Since:       w.Since,
		Until:       w.Until,
		Each: func() {
			mu.Lock()
			defer mu.Unlock()
			w.Done++
			w.Total = max(w.Total, w.Done)
			if w.Done%replayBatch == 0 {
				_ = c.advance(ctx, w) // for display only: the end of it counts
			}
		},
	})
	if err != nil {
		return err
	}
	events, created := done.Value.EventsScanned, done.Value.DeliveriesCreated
	w.Total, w.Done, w.Refused = events, events, events-created
	if created > 0 {
		c.See(ctx, done.Position, deliveries.ReadModel.Name)
	}
	return nil
}

// advance records progress.
func (c *Console) advance(ctx context.Context, w *Work) error {
	now := c.Now().UTC().Truncate(time.Microsecond)
	if !now.After(w.Beat) {
		now = w.Beat.Add(time.Microsecond)
	}
	if err := c.Works.Advance(ctx, *w, now); err != nil {
		return err
	}
	w.Beat = now
	return nil
}
