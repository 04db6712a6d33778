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
func (m *managers) sealAddresses(ctx context.Context) error {
	for {
		sealed, err := m.sealOpenAddresses(ctx)
		if sealed > 0 {
			m.log.Info("addresses of destinations that lay open in events are sealed now; docs/operate/upgrade.md says "+
				"what stays", "destinations", sealed)
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		m.log.Warn("addresses of destinations that lie open could not be sealed yet", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sealPause):
		}
	}
}

func (m *managers) sealOpenAddresses(ctx context.Context) (sealed int, err error) {
	if err := m.readModels.runner.Newest(ctx, destinations.ReadModel); err != nil {
		return 0, err
	}
	by := command.Caller{Actor: "carillon", RequestID: uuid.New()}
	err = m.readModels.queries.PlainAddresses(ctx, func(plain query.PlainAddress) error {
		if !destination.Hides(plain.URL) {
			return nil
		}
		done, err := m.commands.SealAddress(ctx, by, plain.Destination)
		if done {
			sealed++
		}
		return err
	})
	return sealed, err
}
