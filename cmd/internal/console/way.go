package console

import (
	"fmt"
	"time"

	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

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
