package app

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command"
	"carillon/projections/destinations"
	"carillon/query"
)

// sealPause is between two tries to seal the addresses that lie open.
const sealPause = 10 * time.Second

// sealAddresses seals the addresses of live destinations that lie open in their events, once after the start: a version
// before recorded them so, and no version of now does. Several processes may do it at the same time.
func (a *App) sealAddresses(ctx context.Context) error {
	for {
		sealed, err := a.sealOpenAddresses(ctx)
		if sealed > 0 {
			a.log.Info("addresses of destinations that lay open in events are sealed now; docs/operate/upgrade.md says "+
				"what stays", "destinations", sealed)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		a.log.Warn("addresses of destinations that lie open could not be sealed yet", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sealPause):
		}
	}
}

func (a *App) sealOpenAddresses(ctx context.Context) (sealed int, err error) {
	if err := a.Progress.Settle(ctx, a.base.store, destinations.ReadModel); err != nil {
		return 0, err
	}
	by := command.Caller{Actor: "carillon", RequestID: uuid.New()}
	err = a.Queries.PlainAddresses(ctx, func(plain query.PlainAddress) error {
		if !destination.Hides(plain.URL) {
			return nil
		}
		done, err := a.Commands.SealAddress(ctx, by, plain.Destination)
		if done {
			sealed++
		}
		return err
	})
	return sealed, err
}
