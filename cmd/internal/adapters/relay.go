package adapters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/httpapi"
	"carillon/command"
	"carillon/command/webhook"
)

// Relay hands requests of the deliverer to listeners of any process, through two tables of Postgres. Both sides look at
// them again and again while a request or a listener is there, and not else.
type Relay struct{ Pool *pgxpool.Pool }

const (
	relayPoll   = 50 * time.Millisecond
	seenEvery   = 2 * time.Second
	cleanupTime = 5 * time.Second

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
	takeRequest = `
		UPDATE carillon.listen_requests SET taken_at = clock_timestamp() WHERE id = (
			SELECT id FROM carillon.listen_requests WHERE channel = $1 AND taken_at IS NULL
			ORDER BY made_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id, request`
	isWaiting  = `SELECT EXISTS (SELECT FROM carillon.listen_requests WHERE id = $1 AND answer IS NULL)`
	giveAnswer = `
		UPDATE carillon.listen_requests SET answer = $3
		WHERE id = $1 AND channel = $2 AND taken_at IS NOT NULL AND answer IS NULL`
)

// errNoListener is shown to the owner of the destination with the attempt.
var errNoListener = errors.New(
	"no program listens: start carillon listen, or ask GET /events/destinations/{ref}/listen")

// For implements webhook.Relay.
func (r Relay) For(organization uuid.UUID) http.RoundTripper {
	return relayTransport{pool: r.Pool, organization: organization}
}

type relayTransport struct {
	pool         *pgxpool.Pool
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
	raw, err := json.Marshal(httpapi.ListenRequest{Headers: flat(r.Header), Body: string(body)})
	if err != nil {
		return nil, err
	}
	id := uuid.New()
	defer t.drop(r.Context(), id)
	if _, err := t.pool.Exec(r.Context(), makeRequest, id, line.channel, line.seal(raw)); err != nil {
		return nil, fmt.Errorf("hand over to a listener: %w", err)
	}
	for {
		var sealed []byte
		var heard bool
		switch err := t.pool.QueryRow(r.Context(), lookForAnswer, id, line.channel).Scan(&sealed, &heard); {
		case err != nil:
			return nil, fmt.Errorf("wait for a listener: %w", err)
		case sealed != nil:
			return line.response(r, sealed)
		case !heard:
			return nil, errNoListener
		}
		if err := sleep(r.Context(), relayPoll); err != nil {
			return nil, err
		}
	}
}

// drop deletes a request, also if the attempt has timed out.
func (t relayTransport) drop(ctx context.Context, id uuid.UUID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	_, _ = t.pool.Exec(ctx, dropRequest, id) // a later request deletes it
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
	return &http.Response{
		StatusCode:    answer.Status,
		Status:        fmt.Sprintf("%d %s", answer.Status, http.StatusText(answer.Status)),
		Proto:         "HTTP/1.1",
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader([]byte(answer.Body))),
		ContentLength: int64(len(answer.Body)),
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

// Listen implements httpapi.Relay: it offers one request at a time, until the context ends or a function fails.
func (r Relay) Listen(ctx context.Context, l httpapi.Listening) error {
	line := lineOf(l.Organization, l.Token)
	var seen time.Time
	offered := uuid.Nil // waits for its answer
	for {
		if time.Since(seen) >= seenEvery {
			if err := l.Still(); err != nil {
				return err
			}
			if _, err := r.Pool.Exec(ctx, listening, line.channel); err != nil {
				return unreachable(err)
			}
			seen = time.Now()
		}
		waits := false
		if offered != uuid.Nil {
			if err := r.Pool.QueryRow(ctx, isWaiting, offered).Scan(&waits); err != nil {
				return unreachable(err)
			}
		}
		if !waits {
			var err error
			if offered, err = r.offerNext(ctx, line, l.Offer); err != nil {
				return err
			}
		}
		if err := sleep(ctx, relayPoll); err != nil {
			return err
		}
	}
}

// offerNext offers the oldest request, if there is one, and returns its id.
func (r Relay) offerNext(ctx context.Context, line line, offer func(uuid.UUID, []byte) error) (uuid.UUID, error) {
	var id uuid.UUID
	var sealed []byte
	err := r.Pool.QueryRow(ctx, takeRequest, line.channel).Scan(&id, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil
	}
	if err != nil {
		return uuid.Nil, unreachable(err)
	}
	raw, err := line.open(sealed)
	if err != nil {
		return uuid.Nil, err
	}
	return id, offer(id, raw)
}

// Answer implements httpapi.Relay.
func (r Relay) Answer(ctx context.Context, of uuid.UUID, token string, id uuid.UUID, raw []byte) (bool, error) {
	line := lineOf(of, token)
	given, err := r.Pool.Exec(ctx, giveAnswer, id, line.channel, line.seal(raw))
	return given.RowsAffected() == 1, unreachable(err)
}

func unreachable(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("listen: %w: %w", command.ErrUnavailable, err)
}

func sleep(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pause):
		return nil
	}
}
