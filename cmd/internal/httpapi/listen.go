package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"

	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
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
	// Offer shows a request. The next one comes after its answer, or when it is given up.
	Offer func(id uuid.UUID, request ListenRequest) error
	// Still is called every few seconds. Its error ends the listening.
	Still func() error
}

// ListenRequest is a webhook on its way to a listener.
type ListenRequest struct {
	Headers     map[string]string `json:"headers"`     // names in lower case
	HeaderNames []string          `json:"headerNames"` // as sent
	Body        string            `json:"body"`        // byte for byte
}

// ListenAnswer is the answer of a receiver.
type ListenAnswer struct {
	Status      int               `json:"status"`
	Headers     map[string]string `json:"headers"`
	HeaderLines []string          `json:"headerLines,omitempty"` // "name: value", beside Headers
	Body        string            `json:"body"`
	BodyBase64  []byte            `json:"bodyBase64,omitempty"` // in place of Body
}

// ListenState is sent when a destination that is listened at does not get what is published.
type ListenState struct {
	Status       string  `json:"status"` // the destination's, or one of those below
	StatusReason *string `json:"statusReason"`
}

// The stream ends after these.
const (
	ListenDeleted = "deleted"
	ListenMoved   = "moved" // config.url was changed
)

var errStreamEnds = errors.New("nothing is sent to the stream any more")

// listen answers GET /events/destinations/{ref}/listen, until the caller goes away, the key ends or the process does.
func (a *API) listen(w http.ResponseWriter, r *http.Request) {
	err := wire.Events.ParseQuery(r).Err()
	var at relayed
	if err == nil {
		at, err = a.relayed(r)
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
	begun, shown := false, statusEnabled
	write := func(text string) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("X-Accel-Buffering", "no") // proxies that hold answers back
		}
		if _, err := w.Write([]byte(text)); err != nil { //nolint:gosec // an event stream is no page
			return err
		}
		return http.NewResponseController(w).Flush()
	}
	err = a.Relay.Listen(ctx, Listening{
		Organization: callerOf(r).Organization,
		Token:        at.token,
		Offer: func(id uuid.UUID, request ListenRequest) error {
			shown, err := a.requestFor(ctx, at.id, request)
			if err != nil {
				return err
			}
			return write(fmt.Sprintf("event: webhook\nid: %s\ndata: %s\n\n", id, shown))
		},
		Still: func() error {
			if _, err := a.keyOf(r); err != nil {
				return err
			}
			now, err := a.listenState(r, at)
			if err != nil {
				return err
			}
			text := ": still here\n\n"
			if now.Status != shown {
				shown = now.Status
				state, err := wire.Marshal(now)
				if err != nil {
					return err
				}
				text += fmt.Sprintf("event: destination\ndata: %s\n\n", state)
			}
			err = write(text)
			if err == nil && (shown == ListenDeleted || shown == ListenMoved) {
				err = errStreamEnds
			}
			return err
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

// requestFor returns a request in JSON as a caller may see it. Values of the destination's own headers are masked, or
// recorded as disclosed.
func (a *API) requestFor(ctx context.Context, destination uuid.UUID, request ListenRequest) ([]byte, error) {
	own := map[string]string{}
	for name, value := range request.Headers {
		if webhook.MayBeOwn(name, value) {
			own[name] = value
		}
	}
	maps.Copy(request.Headers, headersFor(ctx, own))
	if len(own) > 0 && may(ctx, organization.ScopeSecrets) {
		shown := command.Disclose{Destination: destination, What: []disclosure.Part{disclosure.Headers}}
		if err := a.disclose(ctx, shown); err != nil {
			return nil, err
		}
	}
	return wire.Marshal(request)
}

// listenState returns the state of a destination that is listened at.
func (a *API) listenState(r *http.Request, at relayed) (ListenState, error) {
	now, err := a.relayed(r)
	switch {
	case err != nil && wire.FailureOf(err).Kind == wire.NotFound, err == nil && now.id != at.id:
		return ListenState{Status: ListenDeleted}, nil
	case err != nil && wire.FailureOf(err).Kind == wire.Conflict, err == nil && now.token != at.token:
		return ListenState{Status: ListenMoved}, nil
	}
	return now.state, err
}

// relayed is a destination to listen at.
type relayed struct {
	id    uuid.UUID
	token string // the secret part of its URL
	state ListenState
}

// relayed returns the destination that the path names, if it is one to listen at.
func (a *API) relayed(r *http.Request) (at relayed, err error) {
	found, err := a.destination(r)
	if err != nil {
		return at, err
	}
	url := found.URL
	if len(found.Address.Data) > 0 {
		plain, err := a.open(r.Context(), found.ID, sealing.Address, found.Address.Data)
		if errors.Is(err, errUnavailable) {
			return at, a.untestable(r.Context(), found.ID)
		}
		if err != nil {
			return at, err
		}
		url = string(plain)
	}
	at = relayed{found.ID, webhook.RelayToken(url), ListenState{found.Status, found.StatusReason}}
	if at.token == "" {
		return at, &wire.Failure{
			Kind: wire.Conflict,
			Issue: "the destination's webhooks are sent to its config.url: to listen, make one whose config.url is " +
				"https://listen.invalid/stream/ and 32 or more random letters and digits",
		}
	}
	return at, nil
}

// answerBody is a ListenAnswer as sent.
type answerBody struct {
	Status      wire.Optional[int]               `json:"status"`
	Headers     wire.Optional[map[string]string] `json:"headers"`
	HeaderLines wire.Optional[[]string]          `json:"headerLines"`
	Body        wire.Optional[string]            `json:"body"`
	BodyBase64  wire.Optional[string]            `json:"bodyBase64"`
	raw         []byte
}

// Check implements wire.Body.
func (b *answerBody) Check(c *wire.Checks) {
	if c.Require("status", b.Status.Set) && (b.Status.Value < http.StatusOK || b.Status.Value > 599) {
		c.Fail("status", "must be 200 to 599")
	}
	for i, line := range b.HeaderLines.Value {
		if name, _, found := strings.Cut(line, ":"); !found || !httpguts.ValidHeaderFieldName(name) {
			c.Fail(fmt.Sprintf("headerLines[%d]", i), `must be a header such as "Set-Cookie: a=b"`)
		}
	}
	var err error
	if b.raw, err = base64.StdEncoding.DecodeString(b.BodyBase64.Value); err != nil || b.Body.Set && b.BodyBase64.Set {
		c.Fail("bodyBase64", "must be base64, without body beside it")
	}
}

// answerListened answers POST /events/destinations/{ref}/listen/{id}.
func (a *API) answerListened(r *http.Request, id uuid.UUID, body answerBody) (wire.Reply, error) {
	at, err := a.relayed(r)
	if err != nil {
		return wire.Reply{}, err
	}
	raw, err := wire.Marshal(ListenAnswer{
		Status:      body.Status.Value,
		Headers:     body.Headers.Value,
		HeaderLines: body.HeaderLines.Value,
		Body:        body.Body.Value,
		BodyBase64:  body.raw,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	waited, err := a.Relay.Answer(ctx, callerOf(r).Organization, at.token, id, raw)
	if err == nil && !waited {
		err = &wire.Failure{
			Kind:    wire.NotFound,
			Message: "no webhook waits for this answer: it was answered, or its attempt has timed out",
		}
	}
	return wire.Done(), err
}

const answerTimeout = 10 * time.Second
