package adapters

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/command"
	"carillon/projections"
	"carillon/projections/publications"
	"carillon/query"
)

// newestPatience limits the wait for the newest rows. After that the present rows are used.
const newestPatience = 2 * time.Second

// History is command.History on the read models of publications, items and subscriptions.
type History struct {
	Queries *query.Queries
	Runner  *projections.Runner
}

var _ command.History = History{}

// History implements command.History. It sees what was published before it was asked.
func (h History) History(
	ctx context.Context, organization uuid.UUID, since, until, retiredBefore time.Time,
	each func(uuid.UUID, dispatch.Summary) error,
) error {
	if err := h.AwaitPublished(ctx); err != nil && !errors.Is(err, projections.ErrBehind) {
		return err
	}
	return h.Queries.History(ctx, organization, since, until, retiredBefore, func(e query.EventSummary) error {
		return each(e.ID, dispatch.Summary{
			Type:     e.Type,
			Source:   e.Source,
			Subject:  query.Of(e.Subject),
			Time:     e.Time.UTC(),
			FeedType: query.Of(e.FeedType),
			FeedID:   query.Of(e.FeedID),
		})
	})
}

// AwaitPublished waits until the read model has all that was published before it was asked. While the event store is
// away, nothing is published, and readers don't wait.
func (h History) AwaitPublished(ctx context.Context) error {
	if err := h.Runner.Reach.Err(); err != nil {
		return fmt.Errorf("%w: the event store: %w", projections.ErrBehind, err)
	}
	return h.Runner.Wait(publications.ReadModel).For(ctx, newestPatience)
}

// ItemsQuiet implements command.History.
func (h History) ItemsQuiet(ctx context.Context, happening uuid.UUID, since time.Time) (bool, error) {
	return h.Queries.ItemsQuiet(ctx, happening, since)
}

// SubscriptionSettings implements command.History.
func (h History) SubscriptionSettings(
	ctx context.Context, organization, destination uuid.UUID,
) (map[uuid.UUID]subscription.Settings, error) {
	active, err := h.Queries.ActiveSubscriptions(ctx, organization, destination)
	if err != nil {
		return nil, err
	}
	settings := make(map[uuid.UUID]subscription.Settings, len(active))
	for _, s := range active {
		settings[s.ID] = s.Settings
	}
	return settings, nil
}
