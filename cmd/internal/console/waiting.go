package console

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/command/sealing"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// standing explains the state of a delivery: the cause of its waiting or of its final status. The template why has a
// sentence for each Kind.
type standing struct {
	Kind  string // what it waits for, or its state
	Until time.Time
	Queue int // pending deliveries of the destination, including this one
	// Keyless reports that a sealed value of the destination can't be read, so that attempts fail until it is
	// repaired.
	Keyless bool
	// Arrived is the attempt that succeeded, if a later one did not.
	Arrived *query.Attempt
}

// standingOf determines the standing of a delivery.
func standingOf(d query.DeliveryDetail, keyless bool, queue int) standing {
	s := standing{Kind: cmp.Or(string(d.Waits.For), string(d.State)), Until: d.Waits.Until, Queue: queue}
	if d.Waits.For == "" && d.DueAt != nil { // a replay, too
		s.Kind = string(deliverystate.Delivering)
	}
	for i, a := range d.Attempts {
		if a.FailureReason == nil && i < len(d.Attempts)-1 && d.Attempts[len(d.Attempts)-1].FailureReason != nil {
			s.Arrived = &d.Attempts[i]
		}
	}
	s.Keyless = keyless && (d.Waits.For != "" || d.State == deliverystate.Delivering || d.State == deliverystate.Failed)
	return s
}

// standing reads the data for standingOf.
func (c *Console) standing(v *visit, d deliveryView) (standing, error) {
	queue := 0
	if d.Waits.For != "" {
		var err error
		if queue, err = c.countDeliveries(v, d.Destination, pendingStates); err != nil {
			return standing{}, err
		}
	}
	keyless, err := c.keyless(v, d.To)
	return standingOf(d.DeliveryDetail, keyless, queue), err
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

// stage is a step of a delivery.
type stage struct {
	Kind  string // CSS class: done, failed, next
	Name  string
	At    time.Time
	After string // since the previous one
	Note  string
}

// Stages returns the stages of a delivery from the event to the last attempt, and to the next one.
func (d deliveryView) Stages() []stage {
	way := []stage{{Kind: "done", Name: "published", At: d.Event.Time}}
	add := func(s stage, since time.Time) {
		s.After = "+" + briefly(s.At.Sub(since))
		way = append(way, s)
	}
	add(stage{Kind: "done", Name: "dispatched", At: d.CreatedAt}, d.Event.Time)
	if d.Earlier > 0 {
		way = append(way, stage{
			Kind: "earlier",
			Name: fmt.Sprintf("attempts 1 to %d", d.Earlier),
			At:   d.Attempts[0].AttemptedAt,
		})
	}
	for _, a := range d.Attempts[d.Earlier:] {
		s := stage{
			Kind: "done",
			Name: fmt.Sprintf("attempt %d", a.Number),
			At:   a.AttemptedAt,
			Note: answered(a),
		}
		if a.FailureReason != nil {
			s.Kind = "failed"
		}
		add(s, way[len(way)-1].At)
	}
	if d.DueAt != nil && d.State != deliverystate.Delivering {
		add(stage{
			Kind: "next",
			Name: "next attempt",
			At:   *d.DueAt,
			Note: ago(*d.DueAt, d.Now),
		}, way[len(way)-1].At)
	}
	return way
}

func answered(a query.Attempt) string {
	if a.ResponseStatus == nil {
		return "no answer, " + milliseconds(a.Duration)
	}
	return fmt.Sprintf("%d, %s", *a.ResponseStatus, milliseconds(a.Duration))
}

// briefly formats a duration; clocks of two machines may differ a little.
func briefly(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 2*time.Minute:
		return milliseconds(d)
	}
	return length(d)
}
