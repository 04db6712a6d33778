package command

import (
	"context"
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
	recent := c.disclosed.cache()
	in.What, in.Secrets = disclosure.Missing(in.What, in.Secrets, now, func(what disclosure.Part, id uuid.UUID) time.Time {
		at, _ := recent.Get(disclosed{in.Destination, by.Actor, what, id})
		return at
	})
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
	if err != nil {
		return err
	}
	for _, what := range in.What {
		recent.Add(disclosed{in.Destination, by.Actor, what, uuid.Nil}, now)
	}
	for _, secret := range in.Secrets {
		recent.Add(disclosed{in.Destination, by.Actor, disclosure.Secrets, secret}, now)
	}
	return nil
}

// disclosed is a recorded disclosure. Recent ones are cached, so that repeated ones need no query.
type disclosed struct {
	destination uuid.UUID
	to          string
	what        disclosure.Part
	secret      uuid.UUID
}
