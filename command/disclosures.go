package command

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
)

// Disclose is the input before something of a destination is shown in full.
type Disclose struct {
	Destination uuid.UUID
	What        []disclosure.Part
}

// Disclose puts on record that the caller is shown something in full. Where that can't be done, it must not be shown.
func (c *Commands) Disclose(ctx context.Context, by Caller, in Disclose) error {
	now := c.now()
	what := c.disclosed.missing(by.Actor, in, now)
	if len(what) == 0 {
		return nil
	}
	_, err := disclosure.Aggregate.Execute(ctx, c.Store, disclosure.StreamID(in.Destination, now), disclosure.Show{
		Destination: in.Destination, To: by.Actor, What: what, At: now,
	}, disclosure.Options{Metadata: by.metadata()})
	if err == nil {
		c.disclosed.note(by.Actor, Disclose{in.Destination, what}, now)
	}
	return err
}

// disclosures is what is known to be on record: who looks again costs no question. It may forget.
type disclosures struct {
	mu   sync.Mutex
	last map[disclosed]time.Time
}

type disclosed struct {
	destination uuid.UUID
	to          string
	what        disclosure.Part
}

// mostDisclosures bounds the memory of them, to some ten megabytes.
const mostDisclosures = 100_000

func (d *disclosures) missing(to string, in Disclose, now time.Time) (what []disclosure.Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range in.What {
		if !w.Stands(d.last[disclosed{in.Destination, to, w}], now) {
			what = append(what, w)
		}
	}
	return what
}

func (d *disclosures) note(to string, in Disclose, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || len(d.last) >= mostDisclosures {
		d.last = map[disclosed]time.Time{}
	}
	for _, w := range in.What {
		d.last[disclosed{in.Destination, to, w}] = now
	}
}
