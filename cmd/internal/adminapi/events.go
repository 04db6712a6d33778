package adminapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections/publications"
)

const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
	maxEvent    = 1 << 20 // bytes of one event as sent
	// publishers is how many events of a body are dealt with at a time.
	publishers   = intakeEvents
	publishQueue = 4 // events that wait for each publisher
	// publishBytes bounds what all of those take as sent: events are up to 1 MiB.
	publishBytes = 16 << 20
)

func (a *API) eventRoutes(r routes) {
	r.operators.With(a.withoutReadTimeout).Post("/admin/events", handle(a.publish))
}

// withoutReadTimeout lifts the limit on the time for reading a body: many events may take longer than the server grants
// any other request. A body of many is read no further once the process begins to stop: it may have no end.
func (a *API) withoutReadTimeout(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			wire.Events.WriteError(w, r, err)
			return
		}
		if media, err := wire.MediaType(r, mediaJSON, mediaNDJSON); err == nil && media == mediaNDJSON {
			cut := func() { _ = control.SetReadDeadline(time.Now()) }
			defer context.AfterFunc(a.ending(), cut)() //nolint:contextcheck // it ends with the process
		}
		next.ServeHTTP(w, r)
	})
}

// ending ends when the process begins to stop.
func (a *API) ending() context.Context {
	if a.Ending == nil {
		return context.Background()
	}
	return a.Ending()
}

// Published counts the events that are recorded, including those that had been recorded before under the same id.
type Published struct {
	Published int `json:"published"`
}

type eventBody struct {
	ID             wire.Optional[string]         `json:"id"`
	Type           wire.Optional[string]         `json:"type"`
	Source         wire.Optional[string]         `json:"source"`
	Subject        *string                       `json:"subject"`
	Time           wire.Optional[string]         `json:"time"`
	FeedType       *string                       `json:"feedType"`
	FeedID         *string                       `json:"feedId"`
	OrganizationID *string                       `json:"organizationId"`
	Data           wire.Optional[jsontext.Value] `json:"data"`
	input          command.Publish
}

// Check implements wire.Body. The command compares the event with the catalog.
func (b *eventBody) Check(c *wire.Checks) {
	b.input = command.Publish{
		Type:     b.Type.Value,
		Source:   b.Source.Value,
		Subject:  text(b.Subject),
		FeedType: text(b.FeedType),
		Data:     b.Data.Value,
	}
	c.Require("type", b.Type.Set)
	c.Require("source", b.Source.Set)
	c.Require("data", b.Data.Set)
	if b.ID.Set {
		b.input.ID = c.UUID("id", b.ID.Value)
	}
	if b.FeedID != nil {
		b.input.FeedID = c.UUID("feedId", *b.FeedID)
	}
	if b.OrganizationID != nil {
		b.input.Organization = c.UUID("organizationId", *b.OrganizationID)
	}
	if b.Time.Set {
		at, err := wire.ParseTime(b.Time.Value)
		if err != nil {
			c.Fail("time", "must be an ISO 8601 time with Z or an offset, such as 2026-11-21T12:00:00Z")
		}
		if at.IsZero() { // which means now to the command
			at = at.Add(1)
		}
		b.input.Time = at
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// publish answers POST /admin/events: it takes one event, or many as NDJSON of any length.
func (a *API) publish(r *http.Request) (wire.Reply, error) {
	media, err := wire.MediaType(r, mediaJSON, mediaNDJSON)
	if err != nil {
		return wire.Reply{}, err
	}
	if media == mediaNDJSON {
		body, err := a.checked(r)
		if err != nil {
			return wire.Reply{}, err
		}
		published, err := a.publishMany(r.Context(), operator(r), body)
		return wire.OK(Published{Published: published}), err
	}
	data, err := wire.ReadBody(r, maxEvent)
	if err != nil {
		return wire.Reply{}, err
	}
	var body eventBody
	if err := wire.UnmarshalBody(data, &body); err != nil {
		return wire.Reply{}, err
	}
	a.intake.beside()
	done, err := a.Commands.PublishForOthers(r.Context(), operator(r), body.input)
	a.keepPace(r.Context(), done.Position)
	return wire.OK(Published{Published: 1}), err
}

// maxAhead is how far publishing may be ahead of the read model of events, in bytes of the log.
const maxAhead = 256 << 10

// keepPace waits while publishing runs away from what follows it, as the queue between them would only grow. It reports
// false if the read model is still that far behind after wire.AwaitLimit.
func (a *API) keepPace(ctx context.Context, at eventstore.Position) bool {
	if at.Commit <= maxAhead {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, wire.AwaitLimit)
	defer cancel()
	return a.Await(ctx, eventstore.Position{Commit: at.Commit - maxAhead}, publications.ReadModel.Name)
}

// checked returns the body of many events to publish from. A body that declares a short length is read and checked
// whole: if it is refused, nothing is recorded. Others are published as they arrive, as they may have no end.
func (a *API) checked(r *http.Request) (io.Reader, error) {
	if r.ContentLength < 0 || r.ContentLength > maxEvent {
		return r.Body, nil
	}
	data, err := wire.ReadBody(r, maxEvent)
	if err != nil {
		return nil, err
	}
	var (
		events  []command.Publish
		numbers []int
	)
	number, refused := readLines(bytes.NewReader(data), func(l line) error {
		events, numbers = append(events, l.event), append(numbers, l.number)
		return nil
	})
	if i, err := a.Commands.CheckForOthers(r.Context(), events); err != nil {
		number, refused = numbers[i], err
	}
	if refused != nil {
		return nil, atLine(number, 0, refused)
	}
	return bytes.NewReader(data), nil
}

// line is an event on its way, with its place in the body.
type line struct {
	number int
	event  command.Publish
	size   int64 // as sent
}

// batch is the state of one publishMany.
type batch struct {
	room   *semaphore.Weighted // bytes of lines that are read and not published yet
	seed   maphash.Seed
	done   atomic.Int64
	failed atomic.Bool
	behind atomic.Bool // the read model of events was too far behind, and is not awaited again
	mu     sync.Mutex
	first  error // of the earliest line that failed
	number int
}

func (b *batch) fail(number int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first == nil || number < b.number {
		b.first, b.number = err, number
	}
	b.failed.Store(true)
}

// publishMany publishes each line, and returns their number. Events of one subject keep their order; others may
// overtake each other. It stops at the first refused line; events on their way into the store by then are published.
func (a *API) publishMany(ctx context.Context, by command.Caller, body io.Reader) (count int, err error) {
	state := batch{room: semaphore.NewWeighted(publishBytes), seed: maphash.MakeSeed()}
	var running sync.WaitGroup
	lanes := make([]chan line, publishers)
	for i := range lanes {
		lanes[i] = make(chan line, publishQueue)
		running.Go(func() {
			for l := range lanes[i] {
				if err := panics.Catch("publish", func() error { a.publishLine(ctx, by, l, &state); return nil }); err != nil {
					state.fail(l.number, err)
				}
			}
		})
	}
	number, err := readLines(body, func(l line) error { return state.enqueue(ctx, l, lanes) })
	for _, lane := range lanes {
		close(lane)
	}
	running.Wait()
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && a.ending().Err() != nil {
		err = &wire.Failure{Kind: wire.Unavailable, Issue: "this server is being stopped", Cause: err}
	}
	if err != nil && !errors.Is(err, errRefused) {
		state.fail(number, err)
	}
	published := int(state.done.Load())
	if state.first != nil {
		return published, atLine(state.number, published, state.first)
	}
	return published, nil
}

func (a *API) publishLine(ctx context.Context, by command.Caller, l line, state *batch) {
	defer state.room.Release(l.size)
	if state.failed.Load() {
		return // the reader may still be waiting for room
	}
	left, err := a.intake.enter(ctx, l.size)
	if err != nil {
		state.fail(l.number, err)
		return
	}
	defer left()
	done, err := a.Commands.PublishForOthers(ctx, by, l.event)
	if err != nil {
		state.fail(l.number, err)
		return
	}
	state.done.Add(1)
	if !state.behind.Load() && !a.keepPace(ctx, done.Position) {
		state.behind.Store(true)
	}
}

// errRefused stops the reading of a body of which a line was refused.
var errRefused = errors.New("a line was refused")

// enqueue passes an event to the lane of its subject, or to any if it has none.
func (b *batch) enqueue(ctx context.Context, l line, lanes []chan line) error {
	if err := b.room.Acquire(ctx, l.size); err != nil {
		return &wire.Failure{
			Kind:  wire.BadBody,
			Field: "body",
			Issue: "could not be read to its end",
			Cause: err,
		}
	}
	lane := l.number % len(lanes)
	if l.event.Subject != "" {
		sum := maphash.String(b.seed, l.event.Type+"\x00"+l.event.Subject)
		lane = int(sum % uint64(len(lanes))) //nolint:gosec // there are few lanes
	}
	lanes[lane] <- l
	if b.failed.Load() {
		return errRefused
	}
	return nil
}

// readLines calls each with every event of a body, until that returns an error. It returns the number of the line that
// has an error, with the error.
func readLines(body io.Reader, each func(line) error) (int, error) {
	reader := bufio.NewReaderSize(body, maxEvent)
	for number := 1; ; number++ {
		text, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return number, wire.Fail(wire.TooLarge, "line", "is over the limit of %d bytes", maxEvent)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return number, &wire.Failure{
				Kind:  wire.BadBody,
				Field: "body",
				Issue: "could not be read to its end",
				Cause: err,
			}
		}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			var body eventBody
			if err := wire.UnmarshalBody(trimmed, &body); err != nil {
				return number, err
			}
			if err := each(line{number, body.input, int64(len(trimmed))}); err != nil {
				return number, err
			}
		}
		if err != nil {
			return 0, nil //nolint:nilerr // the end of the body
		}
	}
}

// atLine adds the failed line and the outcome of the others to an error.
func atLine(number, published int, err error) error {
	f := *wire.FailureOf(err)
	if f.Kind == wire.Internal {
		return err
	}
	f.Message = fmt.Sprintf("line %d: %s (%d events were published; sending the same again publishes none twice that "+
		"has an id)", number, f.Error(), published)
	return &f
}
