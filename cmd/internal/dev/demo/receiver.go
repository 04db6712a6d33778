package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/cmd/internal/dev"
)

const (
	maxBody = 1 << 20 // bytes
	backlog = 64
)

// receiver is a customer's endpoint: TLS on loopback, and each delivery verified with the Standard Webhooks library.
type receiver struct {
	url     string
	close   func()
	arrived chan arrival

	mu       sync.Mutex
	verifier *standardwebhooks.Webhook
}

// arrival is a delivery, or what was wrong with one.
type arrival struct {
	deliveryID, eventID, kind, subject string
	at                                 time.Time
	err                                error
}

func startReceiver(ctx context.Context, authority *dev.Authority) (*receiver, error) {
	r := &receiver{arrived: make(chan arrival, backlog)}
	origin, stop, err := authority.Receive(ctx, r.receive)
	r.url, r.close = origin+"/hooks/carillon", stop
	return r, err
}

// trust sets the signing secret.
func (r *receiver) trust(secret string) error {
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return fmt.Errorf("secret: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifier = verifier
	return nil
}

func (r *receiver) receive(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent) // the reachability probe
		return
	}
	a := r.verify(request)
	if a.err != nil {
		w.WriteHeader(http.StatusUnauthorized)
	} else {
		w.WriteHeader(http.StatusNoContent)
	}
	r.arrived <- a
}

func (r *receiver) verify(request *http.Request) arrival {
	a := arrival{deliveryID: request.Header.Get("webhook-id"), at: time.Now()}
	body, err := io.ReadAll(io.LimitReader(request.Body, maxBody))
	if err != nil {
		a.err = err
		return a
	}
	r.mu.Lock()
	verifier := r.verifier
	r.mu.Unlock()
	if verifier == nil {
		a.err = errors.New("a delivery came before there was a secret")
		return a
	}
	if a.err = verifier.Verify(body, request.Header); a.err != nil {
		return a
	}
	var envelope struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Subject string `json:"subject"`
	}
	a.err = json.Unmarshal(body, &envelope)
	a.eventID, a.kind, a.subject = envelope.ID, envelope.Type, envelope.Subject
	return a
}

// next waits for a delivery.
func (r *receiver) next(ctx context.Context) (arrival, error) {
	select {
	case a := <-r.arrived:
		if a.err != nil {
			return a, fmt.Errorf("delivery %s: %w", a.deliveryID, a.err)
		}
		return a, nil
	case <-time.After(patience):
		return arrival{}, fmt.Errorf("no delivery arrived within %s", patience)
	case <-ctx.Done():
		return arrival{}, ctx.Err()
	}
}
