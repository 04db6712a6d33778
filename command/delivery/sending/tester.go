package sending

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/publication"
	"carillon/command/catalog"
	"carillon/command/delivery/facts"
	"carillon/command/webhook"
)

// Tester sends test events: the same envelope, signatures, headers, timeout and address checks as a delivery's, and
// nothing is recorded.
type Tester struct {
	Facts  *facts.Follower
	Sender Sender
	Now    func() time.Time
}

// Tested is the result of a test.
type Tested struct {
	Result    webhook.Result
	WebhookID uuid.UUID
	EventID   uuid.UUID
	Time      time.Time
}

// Send sends one delivery.test event now.
func (t Tester) Send(ctx context.Context, target *destination.Target) (Tested, error) {
	now := t.Now()
	tested := Tested{WebhookID: uuid.New(), EventID: uuid.New(), Time: now.UTC().Truncate(time.Millisecond)}
	opened, err := facts.OpenTarget(ctx, t.Facts.Vault, target, now)
	if err != nil {
		return tested, err
	}
	body := Body{Event: tested.EventID, RecordedAt: now, Published: publication.Published{
		Type:    catalog.DeliveryTest,
		Source:  catalog.DestinationsPath + target.ID.String(),
		Subject: target.ID.String(),
		Time:    tested.Time,
		Data: []byte(`{"message":"This is a test of your destination. Verify the signature, answer 2xx, and ` +
			`ignore it otherwise."}`),
	}}
	rendered, err := body.Bytes()
	if err != nil {
		return tested, err
	}
	via, err := t.Facts.Connections(ctx, target.Organization)
	switch {
	case errors.Is(err, facts.ErrCertificateLost):
		tested.Result = facts.CertificateLost()
		return tested, nil
	case err != nil:
		return tested, err
	}
	tested.Result = t.Sender.Send(ctx, opened.Request(tested.WebhookID, rendered, now, via))
	return tested, ctx.Err()
}
