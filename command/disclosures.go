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
	Secrets     []uuid.UUID // the ids of the signing secrets, if they are part of it
}

// Disclose records that something is shown to the caller in full. If that fails, it must not be shown.
func (c *Commands) Disclose(ctx context.Context, by Caller, in Disclose) error {
	now := c.now()
	in.What, in.Secrets = c.disclosed.missing(by.Actor, in, now)
	if len(in.What) == 0 {
		return nil
	}
	_, err := disclosure.Aggregate.Execute(ctx, c.Store, disclosure.StreamID(in.Destination, now), disclosure.Show{
		Destination: in.Destination,
		To:          by.Actor,
		What:        in.What,
		Secrets:     in.Secrets,
		At:          now,
	}, disclosure.Options{Metadata: by.metadata()})
	if err == nil {
		c.disclosed.note(by.Actor, in, now)
	}
	return err
}

// disclosures caches recorded disclosures, so that repeated ones need no query. Entries may be evicted.
type disclosures struct {
	mu   sync.Mutex
	last map[disclosed]time.Time
}

type disclosed struct {
	destination uuid.UUID
	to          string
	what        disclosure.Part
	secret      uuid.UUID
}

// mostDisclosures bounds the memory of them, to some ten megabytes.
const mostDisclosures = 100_000

func (d *disclosures) missing(to string, in Disclose, now time.Time) ([]disclosure.Part, []uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return disclosure.Missing(in.What, in.Secrets, now, func(what disclosure.Part, secret uuid.UUID) time.Time {
		return d.last[disclosed{in.Destination, to, what, secret}]
	})
}

func (d *disclosures) note(to string, in Disclose, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil || len(d.last) >= mostDisclosures {
		d.last = map[disclosed]time.Time{}
	}
	for _, what := range in.What {
		d.last[disclosed{in.Destination, to, what, uuid.Nil}] = now
	}
	for _, secret := range in.Secrets {
		d.last[disclosed{in.Destination, to, disclosure.Secrets, secret}] = now
	}
}
