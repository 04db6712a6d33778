package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command/sealing"
	"carillon/command/webhook"
)

func (a *API) listenRoutes(r routes) {
	r.write.Get("/events/destinations/{ref}/listen", a.listen)
	r.write.Post("/events/destinations/{ref}/listen/{id}",
		wire.Events.Handle(wire.With2(pathID, wire.Decode[answerBody], a.answerListened)))
}

// Relay connects listeners with the deliverers of all processes; adapters.Relay does.
type Relay interface {
	// Listen refuses, before it calls a function, one stream more than an organization may have.
	Listen(ctx context.Context, l Listening) error
	// Answer reports whether a request waited for the answer.
	Answer(ctx context.Context, organization uuid.UUID, token string, id uuid.UUID, answer []byte) (bool, error)
}

// Listening is one listener.
type Listening struct {
	Organization uuid.UUID
	Token        string // of the destination's URL, see webhook.RelayToken
	// Offer shows a ListenRequest in JSON. The next one comes after its answer, or when it is given up.
	Offer func(id uuid.UUID, request []byte) error
	// Still is called every few seconds. Its error ends the listening.
	Still func() error
}

// ListenRequest is a webhook on its way to a listener.
type ListenRequest struct {
	Headers map[string]string `json:"headers"` // names in lower case
	Body    string            `json:"body"`    // byte for byte
}

// ListenAnswer is the answer of a receiver.
type ListenAnswer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// listen answers GET /events/destinations/{ref}/listen, until the caller goes away, the key ends or the process does.
func (a *API) listen(w http.ResponseWriter, r *http.Request) {
	err := wire.Events.ParseQuery(r).Err()
	var token string
	if err == nil {
		token, err = a.relayToken(r)
	}
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if a.Ending != nil {
		stop := context.AfterFunc(a.Ending(), cancel) //nolint:contextcheck // it ends with the process
		defer stop()
	}
	begun := false
	write := func(text string) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Accel-Buffering", "no") // proxies that hold answers back
		}
		if _, err := w.Write([]byte(text)); err != nil {
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	err = a.Relay.Listen(ctx, Listening{
		Organization: callerOf(r).Organization,
		Token:        token,
		Offer: func(id uuid.UUID, request []byte) error {
			return write(fmt.Sprintf("event: webhook\nid: %s\ndata: %s\n\n", id, request))
		},
		Still: func() error {
			if _, err := a.keyOf(r); err != nil {
				return err
			}
			return write(": still here\n\n")
		},
	})
	switch {
	case err == nil || ctx.Err() != nil:
	case !begun:
		wire.Events.WriteError(w, r, err)
	default:
		wire.Note(r.Context(), slog.String("ended", err.Error()))
	}
}

// relayToken returns the secret part of the URL of the destination that the path names, if it is one to listen at.
func (a *API) relayToken(r *http.Request) (string, error) {
	found, err := a.destination(r)
	if err != nil {
		return "", err
	}
	url := found.URL
	if len(found.Address) > 0 {
		plain, err := a.open(r.Context(), found.ID, sealing.Address, found.Address)
		if errors.Is(err, errUnavailable) {
			return "", a.untestable(r.Context(), found.ID)
		}
		if err != nil {
			return "", err
		}
		url = string(plain)
	}
	token := webhook.RelayToken(url)
	if token == "" {
		return "", &wire.Failure{
			Kind: wire.Conflict,
			Issue: "the destination's webhooks are sent to its config.url: to listen, make one whose config.url is " +
				"https://listen.invalid/stream/ and 32 or more random letters and digits",
		}
	}
	return token, nil
}

// answerBody is a ListenAnswer as sent.
type answerBody struct {
	Status  wire.Optional[int]               `json:"status"`
	Headers wire.Optional[map[string]string] `json:"headers"`
	Body    wire.Optional[string]            `json:"body"`
}

// Check implements wire.Body.
func (b *answerBody) Check(c *wire.Checks) {
	if c.Require("status", b.Status.Set) && (b.Status.Value < http.StatusOK || b.Status.Value > 599) {
		c.Fail("status", "must be 200 to 599")
	}
}

// answerListened answers POST /events/destinations/{ref}/listen/{id}.
func (a *API) answerListened(r *http.Request, id uuid.UUID, body answerBody) (wire.Reply, error) {
	token, err := a.relayToken(r)
	if err != nil {
		return wire.Reply{}, err
	}
	raw, err := wire.Marshal(ListenAnswer{
		Status:  body.Status.Value,
		Headers: body.Headers.Value,
		Body:    body.Body.Value,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	waited, err := a.Relay.Answer(ctx, callerOf(r).Organization, token, id, raw)
	if err == nil && !waited {
		err = &wire.Failure{
			Kind:    wire.NotFound,
			Message: "no webhook waits for this answer: it was answered, or its attempt has timed out",
		}
	}
	return wire.Done(), err
}

const answerTimeout = 10 * time.Second
