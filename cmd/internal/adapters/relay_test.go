package adapters_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

var relayToken = strings.Repeat("Tok3n", 8)

// relayed sends a request through a relay.
func relayed(ctx context.Context, relay *adapters.Relay, organization uuid.UUID, body string) (string, error) {
	url := "https://listen.invalid/stream/" + relayToken
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("webhook-id", "msg_1")
	request.Header["x-Typed"] = []string{"1"}
	response, err := relay.For(organization).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return response.Status + " " + response.Header.Get("x-mine") +
		strings.Join(response.Header.Values("x-more"), "") + " " + string(answer), err
}

// relayOn returns the relay of one process, which goes by notifications alone.
func relayOn(t *testing.T, pool *pgxpool.Pool) *adapters.Relay {
	t.Helper()
	locks := pgtest.Locks(t, pool)
	must.OK(t, locks.Open(t.Context()))
	relay := &adapters.Relay{Pool: pool, Locks: locks, Look: time.Hour}
	go relay.Follow(t.Context())
	return relay
}

// TestRelayConnectsTwoProcesses has one listener at one process and sends at another, one request at a time.
func TestRelayConnectsTwoProcesses(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	api, deliverer := relayOn(t, pool), relayOn(t, pool)
	organization := uuid.New()
	const alone = "no program listens"
	if _, err := relayed(t.Context(), deliverer, organization, "{}"); err == nil || !strings.Contains(err.Error(), alone) {
		t.Fatalf("without a listener: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listens, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- api.Listen(ctx, httpapi.Listening{
			Organization: organization,
			Token:        relayToken,
			Still: func() error {
				listens <- struct{}{}
				return nil
			},
			Offer: func(id uuid.UUID, request httpapi.ListenRequest) error {
				var stored []byte
				err := pool.QueryRow(ctx, `SELECT request FROM carillon.listen_requests WHERE id = $1`, id).Scan(&stored)
				assert.True(t, err == nil && !bytes.Contains(stored, []byte("secret")), "stored in the open: %q, %v", stored, err)
				assert.True(t, request.Headers["webhook-id"] == "msg_1" &&
					slices.Equal(request.HeaderNames, []string{"Webhook-Id", "x-Typed"}), "offered %+v", request)
				answer := `{"status":207,"headers":{"x-mine":"1"},"headerLines":["x-more: 2","x-more:3"],"bodyBase64":"` +
					base64.StdEncoding.EncodeToString([]byte("\xff"+request.Body)) + `"}`
				if another, err := api.Answer(ctx, uuid.New(), relayToken, id, []byte(answer)); another || err != nil {
					t.Errorf("another organization answered: %t, %v", another, err)
				}
				outlives := context.WithoutCancel(ctx) // ctx ends once the answer came
				given, err := api.Answer(outlives, organization, relayToken, id, []byte(answer))
				assert.True(t, given && err == nil, "answer: %t, %v", given, err)
				return err
			},
		})
	}()
	<-listens
	for try := 0; ; try++ { // the listener is noted right after the first look
		got, err := relayed(t.Context(), deliverer, organization, "a secret, <é>")
		if err != nil && try < 100 {
			continue
		}
		assert.True(t, err == nil && got == "207 Multi-Status 123 \xffa secret, <é>", "answered %q, %v", got, err)
		break
	}
	if _, err := relayed(t.Context(), deliverer, uuid.New(), "{}"); err == nil || !strings.Contains(err.Error(), alone) {
		t.Errorf("another organization's with the same address: %v", err)
	}
	cancel()
	assert.Is(t, <-ended, context.Canceled, "listen ended with")
	var left int
	const count = `SELECT count(*) FROM carillon.listen_requests`
	if err := pool.QueryRow(t.Context(), count).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d requests are left, %v", left, err)
	}
}

// TestRelayBoundsStreams opens streams of one organization at once at two processes, of which one ends. A process that
// holds all places refuses without asking for a lock.
func TestRelayBoundsStreams(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	first, second := relayOn(t, pool), relayOn(t, pool)
	organization, other := uuid.New(), uuid.New()
	open := func(relay *adapters.Relay, organization uuid.UUID) error {
		opened, ended := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			ended <- relay.Listen(t.Context(), httpapi.Listening{
				Organization: organization,
				Token:        relayToken,
				Still: func() error {
					select {
					case opened <- struct{}{}:
					default:
					}
					return nil
				},
			})
		}()
		select {
		case <-opened:
			return nil
		case err := <-ended:
			return err
		}
	}
	refused := func(relay *adapters.Relay, where string) {
		t.Helper()
		err := open(relay, organization)
		failure, is := errors.AsType[*wire.Failure](err)
		assert.True(t, is && failure.Kind == wire.RateLimited, "one more at %s: %v", where, err)
	}
	must.OK(t, open(second, organization))
	outcomes := make(chan error)
	for range 15 {
		go func() { outcomes <- open(first, organization) }()
	}
	for range 15 {
		must.OK(t, <-outcomes)
	}
	refused(first, "the first process")
	refused(second, "the second process")
	must.OK(t, open(second, uuid.New()))
	second.Locks.Close()
	for open(first, organization) != nil { // until Postgres has ended the session
		t.Log("the place is still taken")
	}
	for range 17 { // of another organization, each gives its place back
		err := panics.Catch("request", func() error {
			return first.Listen(t.Context(), httpapi.Listening{
				Organization: other,
				Token:        relayToken,
				Still:        func() error { panic("planted") },
			})
		})
		_, panicked := errors.AsType[*panics.Error](err)
		must.True(t, panicked, "a stream that panics: %v", err)
	}
	first.Locks.Close()
	refused(first, "a process that holds all places")
}
