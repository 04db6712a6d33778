package app

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/egress"
	"carillon/command/webhook"
)

// operatorWebhookPause is the time between two tries to set the address of the operators.
const operatorWebhookPause = 10 * time.Second

// setOperatorWebhook sets the address that gets the notices of all organizations, once after the start. Several
// processes may do it at the same time.
func (m *managers) setOperatorWebhook(ctx context.Context) error {
	in := command.SetOperatorWebhook{URL: m.cfg.OperatorWebhook.Reveal()}
	if in.URL != "" {
		var err error
		if in.Secret, err = webhook.ParseSecret(m.cfg.OperatorWebhookSecret.Reveal()); err != nil {
			return err
		}
	}
	for {
		err := m.commands.SetOperatorWebhook(ctx, command.Caller{Actor: "carillon", RequestID: uuid.New()}, in)
		if refusal, is := errors.AsType[*command.Refusal](err); is {
			m.log.Error("CARILLON_OPERATOR_WEBHOOK can't be used: correct it and start again",
				"error", egress.HideAddresses(refusal))
			return nil
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		m.log.Warn("CARILLON_OPERATOR_WEBHOOK could not be set yet", "error", egress.HideAddresses(err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(operatorWebhookPause):
		}
	}
}
