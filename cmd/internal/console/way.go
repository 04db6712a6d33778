package console

import (
	"fmt"
	"time"

	"carillon/query"
)

// station is one of those on a delivery's way.
type station struct {
	Kind  string // done, failed, next: a class of the style sheet
	Name  string
	At    time.Time
	After string // how long after the one before
	Note  string
}

// Way is the delivery's way from the event to the last attempt, and to the next one.
func (d deliveryView) Way() []station {
	way := []station{{Kind: "done", Name: "published", At: d.Event.Time}}
	add := func(s station, since time.Time) {
		s.After = "+" + briefly(s.At.Sub(since))
		way = append(way, s)
	}
	add(station{Kind: "done", Name: "dispatched", At: d.CreatedAt}, d.Event.Time)
	if d.Earlier > 0 {
		way = append(way, station{Kind: "earlier", Name: fmt.Sprintf("attempts 1 to %d", d.Earlier), At: d.Attempts[0].AttemptedAt})
	}
	for _, a := range d.Attempts[d.Earlier:] {
		s := station{Kind: "done", Name: fmt.Sprintf("attempt %d", a.Number), At: a.AttemptedAt, Note: answered(a)}
		if a.FailureReason != nil {
			s.Kind = "failed"
		}
		add(s, way[len(way)-1].At)
	}
	if d.NextAttemptAt != nil && d.Status != "delivering" {
		add(station{Kind: "next", Name: "next attempt", At: *d.NextAttemptAt, Note: ago(*d.NextAttemptAt, d.Now)}, way[len(way)-1].At)
	}
	return way
}

func answered(a query.Attempt) string {
	if a.ResponseStatus == nil {
		return "no answer, " + milliseconds(a.Duration)
	}
	return fmt.Sprintf("%d, %s", *a.ResponseStatus, milliseconds(a.Duration))
}

// briefly is how long something took; clocks of two machines may differ a little.
func briefly(d time.Duration) string {
	switch {
	case d < 0:
		return "0 ms"
	case d < 2*time.Minute:
		return milliseconds(d)
	}
	return length(d)
}
