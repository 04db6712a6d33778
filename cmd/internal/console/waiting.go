package console

import (
	"errors"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/command/sealing"
	"carillon/query"
)

// standing explains the state of a delivery: the cause of its waiting or of its final status. The template why has a
// sentence for each Kind.
type standing struct {
	Kind  string
	Until time.Time // of a later attempt
	Queue int       // pending deliveries of the destination, including this one
	// Keyless reports that a sealed value of the destination can't be read, so that attempts fail until it is
	// repaired.
	Keyless bool
	// Arrived is the attempt that succeeded, if a later one did not.
	Arrived *query.Attempt
}

// standingOf determines the standing of a delivery.
func standingOf(d query.DeliveryDetail, to query.Destination, suspended, keyless bool, queue int,
	now time.Time) standing {
	s := standing{Queue: queue, Keyless: keyless}
	if d.NextAttemptAt != nil {
		s.Until = *d.NextAttemptAt
	}
	for i, a := range d.Attempts {
		if a.FailureReason == nil && i < len(d.Attempts)-1 && d.Attempts[len(d.Attempts)-1].FailureReason != nil {
			s.Arrived = &d.Attempts[i]
		}
	}
	waiting, again := d.NextAttemptAt != nil, d.Status == "succeeded" || d.Status == "failed"
	switch {
	case d.Status == "delivering":
		s.Kind = "sending"
	case d.Status == "superseded", d.Status == "discarded":
		s.Kind = d.Status
	case !waiting && d.Status == "failed":
		s.Kind = "given-up"
	case !waiting:
		s.Kind = "arrived"
	case suspended:
		s.Kind = "suspended"
	case to.Status != "enabled" && !again: // a replay is sent nonetheless
		s.Kind = "disabled"
	case s.Until.After(now) && len(d.Attempts) == 0:
		s.Kind = "debounce"
	case s.Until.After(now):
		s.Kind = "retry"
	default:
		s.Kind = "room"
	}
	if s.Kind == "arrived" || s.Kind == "superseded" || s.Kind == "discarded" {
		s.Keyless = false
	}
	return s
}

// standing reads the data for standingOf.
func (c *Console) standing(v *visit, d deliveryView) (standing, error) {
	owner, err := c.Queries.Organization(v.Context(), v.organization())
	if err != nil && !errors.Is(err, query.ErrNotFound) {
		return standing{}, err
	}
	queue := 0
	if d.NextAttemptAt != nil {
		_, queue, err = c.Queries.Deliveries(v.Context(), v.organization(), d.Destination, query.DeliveryFilter{
			Status: "pending",
			Limit:  1,
		}, d.Now)
		if err != nil {
			return standing{}, err
		}
	}
	keyless, err := c.keyless(v, d.To)
	return standingOf(d.DeliveryDetail, d.To, owner.Status == "suspended", keyless, queue, d.Now), err
}

// keyless reports whether a sealed value of a destination that a request needs can't be read any more.
func (c *Console) keyless(v *visit, to query.Destination) (bool, error) {
	readable, secrets := 0, wire.ListOf(to.Secrets, func(s query.Secret) []byte { return s.Sealed })
	for i, sealed := range append([][]byte{to.Address.Data, to.Headers.Data}, secrets...) {
		if len(sealed) == 0 {
			continue
		}
		field := sealing.Secret
		switch i {
		case 0:
			field = sealing.Address
		case 1:
			field = sealing.Headers
		}
		switch _, err := c.open(v.Context(), to.ID, field, sealed); {
		case err == nil && i > 1:
			readable++
		case errors.Is(err, errUnavailable) && i < 2:
			return true, nil
		case err != nil && !errors.Is(err, errUnavailable):
			return false, err
		}
	}
	return readable == 0, nil // others sign if one can't be read
}
