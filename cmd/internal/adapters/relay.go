package adapters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/webhook"
	"carillon/projections/sessionlock"
)

// Relay hands requests of the deliverer to listeners of any process, through two tables of Postgres. Each side notifies
// the other of a change. Follow receives the notifications.
type Relay struct {
	Pool  *pgxpool.Pool
	Locks *sessionlock.Locks
	Look  time.Duration // without a notification; 0 means a second
	// Refused counts refusals of streams. Optional.
	Refused func(organization.Limit)

	mu      sync.Mutex
	waiting map[chan struct{}]string // the channel of each line
	places  map[place]bool           // those that this process holds or tries
}

// place is one of an organization's streams.
type place struct {
	organization uuid.UUID
	n            int
}

const (
	relayed = "carillon_relay" // the channel of Postgres on which lines that changed are named

	seenEvery   = 2 * time.Second
	cleanupTime = 5 * time.Second
	// maxStreams is the number of streams of an organization that are open at a time, at all processes.
	maxStreams  = 16
	streamPause = 10 * time.Second

	// A listener that was not seen for so long is gone.
	isListening = `EXISTS (
		SELECT FROM carillon.listeners WHERE channel = $2 AND seen_at > clock_timestamp() - interval '6 s')`

	// The older ones are of deliverers that were killed.
	makeRequest = `
		WITH stale AS (DELETE FROM carillon.listen_requests WHERE made_at < clock_timestamp() - interval '10 min')
		INSERT INTO carillon.listen_requests (id, channel, request) VALUES ($1, $2, $3)`
	lookForAnswer = `SELECT answer, ` + isListening + ` FROM carillon.listen_requests WHERE id = $1`
	dropRequest   = `DELETE FROM carillon.listen_requests WHERE id = $1`

	listening = `
		WITH gone AS (DELETE FROM carillon.listeners WHERE seen_at < clock_timestamp() - interval '1 h')
		INSERT INTO carillon.listeners (channel, seen_at) VALUES ($1, clock_timestamp())
		ON CONFLICT (channel) DO UPDATE SET seen_at = excluded.seen_at`
	// Unless the one before waits for its answer.
	takeRequest = `
		UPDATE carillon.listen_requests SET taken_at = clock_timestamp() WHERE id = (
			SELECT id FROM carillon.listen_requests WHERE channel = $1 AND taken_at IS NULL
			AND NOT EXISTS (SELECT FROM carillon.listen_requests WHERE id = $2 AND answer IS NULL)
			ORDER BY made_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, request`
	giveAnswer = `
		UPDATE carillon.listen_requests SET answer = $3
		WHERE id = $1 AND channel = $2 AND taken_at IS NOT NULL AND answer IS NULL`
)

// errNoListener is shown to the owner of the destination with the attempt.
var errNoListener = errors.New(
	"no program listens: start carillon listen, or ask GET /events/destinations/{ref}/listen")

// Follow receives notifications until the context ends.
func (r *Relay) Follow(ctx context.Context) {
	r.Locks.Listen(ctx, relayed, func(channel string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		for changed, of := range r.waiting {
			if channel != "" && channel != of { // "" means that some may have been missed
				continue
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})
}

// watch returns a channel that receives after each change of a line, until stop.
func (r *Relay) watch(l line) (changed chan struct{}, stop func()) {
	changed = make(chan struct{}, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == nil {
		r.waiting = map[chan struct{}]string{}
	}
	r.waiting[changed] = l.name()
	return changed, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiting, changed)
	}
}

// For implements webhook.Relay.
func (r *Relay) For(organization uuid.UUID) http.RoundTripper {
	return relayTransport{Relay: r, organization: organization}
}

type relayTransport struct {
	*Relay

	organization uuid.UUID
}

// RoundTrip implements http.RoundTripper. It waits until a listener has answered, or none is there any more.
func (t relayTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	line := lineOf(t.organization, webhook.RelayToken(r.URL.String()))
	raw, err := json.Marshal(httpapi.ListenRequest{
		Headers:     flat(r.Header),
		HeaderNames: slices.Sorted(maps.Keys(r.Header)),
		Body:        string(body),
	})
	if err != nil {
		return nil, err
	}
	changed, stop := t.watch(line)
	defer stop()
	id := uuid.New()
	defer t.drop(r.Context(), line, id)
	if _, err := t.Pool.Exec(r.Context(), makeRequest, id, line.channel, line.seal(raw)); err != nil {
		return nil, fmt.Errorf("hand over to a listener: %w", err)
	}
	t.Locks.Notify(relayed, line.name())
	for {
		var sealed []byte
		var heard bool
		switch err := t.Pool.QueryRow(r.Context(), lookForAnswer, id, line.channel).Scan(&sealed, &heard); {
		case err != nil:
			return nil, fmt.Errorf("wait for a listener: %w", err)
		case sealed != nil:
			return line.response(r, sealed)
		case !heard:
			return nil, errNoListener
		}
		if err := t.await(r.Context(), changed); err != nil {
			return nil, err
		}
	}
}

// drop deletes a request, also if the attempt has timed out.
func (t relayTransport) drop(ctx context.Context, line line, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	_, _ = t.Pool.Exec(ctx, dropRequest, id) // a later request deletes it
	t.Locks.Notify(relayed, line.name())
}

func (l line) response(r *http.Request, sealed []byte) (*http.Response, error) {
	raw, err := l.open(sealed)
	if err != nil {
		return nil, err
	}
	var answer httpapi.ListenAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range answer.Headers {
		header.Set(name, value)
	}
	for _, line := range answer.HeaderLines {
		name, value, _ := strings.Cut(line, ":")
		header.Add(name, strings.TrimSpace(value))
	}
	body := cmp.Or(string(answer.BodyBase64), answer.Body)
	return &http.Response{
		StatusCode:    answer.Status,
		Status:        fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		Proto:         "HTTP/1.1",
		Header:        header,
		Body:          io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}

func flat(header http.Header) map[string]string {
	one := make(map[string]string, len(header))
	for name, values := range header {
		one[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	return one
}

// look returns the time between two looks for an answer without a notification.
func (r *Relay) look() time.Duration { return cmp.Or(r.Look, time.Second) }

// Listen implements httpapi.Relay: it offers one request at a time, until the context ends or a function fails.
func (r *Relay) Listen(ctx context.Context, l httpapi.Listening) error {
	leave, err := r.enter(ctx, l.Organization)
	if err != nil {
		return err
	}
	defer leave()
	line := lineOf(l.Organization, l.Token)
	changed, stop := r.watch(line)
	defer stop()
	var seen time.Time
	offered := uuid.Nil // may wait for its answer
	for {
		if time.Since(seen) >= min(seenEvery, 2*r.look()) {
			// First the listener is known, so that a reader of the stream's beginning misses no webhook after it.
			if _, err := r.Pool.Exec(ctx, listening, line.channel); err != nil {
				return unreachable(err)
			}
			if err := l.Still(); err != nil {
				return err
			}
			seen = time.Now()
		}
		if err := r.offerNext(ctx, line, &offered, l.Offer); err != nil {
			return err
		}
		if err := r.await(ctx, changed); err != nil {
			return err
		}
	}
}

// enter takes one of the places of an organization's streams, or refuses the stream. Postgres is asked only for places
// that this process neither holds nor tries.
func (r *Relay) enter(ctx context.Context, of uuid.UUID) (leave func(), err error) {
	for n := range maxStreams {
		p := place{of, n}
		if !r.mark(p) {
			continue
		}
		h := fnv.New64a()
		_, _ = fmt.Fprint(h, "stream ", n, " of ", of)
		lock, err := r.Locks.TryAcquire(ctx, sessionlock.Key(h.Sum64())) //nolint:gosec // any 64 bits will do
		if err == nil {
			return func() { lock.Release(); r.unmark(p) }, nil
		}
		r.unmark(p)
		if !errors.Is(err, sessionlock.ErrHeld) {
			return nil, unreachable(err)
		}
	}
	if r.Refused != nil {
		r.Refused(organization.BoundStreams)
	}
	return nil, wire.Limited(string(organization.BoundStreams), maxStreams, streamPause,
		"streams of your organization are open: close one")
}

func (r *Relay) mark(p place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places[p] {
		return false
	}
	if r.places == nil {
		r.places = map[place]bool{}
	}
	r.places[p] = true
	return true
}

func (r *Relay) unmark(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.places, p)
}

// offerNext offers the oldest request, if there is one and the one that was offered before has its answer.
func (r *Relay) offerNext(
	ctx context.Context, line line, offered *uuid.UUID, offer func(uuid.UUID, httpapi.ListenRequest) error,
) error {
	var sealed []byte
	err := r.Pool.QueryRow(ctx, takeRequest, line.channel, *offered).Scan(offered, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return unreachable(err)
	}
	raw, err := line.open(sealed)
	if err != nil {
		return err
	}
	var request httpapi.ListenRequest
	if err := json.Unmarshal(raw, &request); err != nil {
		return err
	}
	return offer(*offered, request)
}

// Answer implements httpapi.Relay.
func (r *Relay) Answer(ctx context.Context, of uuid.UUID, token string, id uuid.UUID, raw []byte) (bool, error) {
	line := lineOf(of, token)
	given, err := r.Pool.Exec(ctx, giveAnswer, id, line.channel, line.seal(raw))
	r.Locks.Notify(relayed, line.name())
	return given.RowsAffected() == 1, unreachable(err)
}

func unreachable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("listen: %w: %w", command.ErrUnavailable, err)
}

// await waits for a change, or until it is time to look without one.
func (r *Relay) await(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-time.After(r.look()):
	}
	return nil
}
