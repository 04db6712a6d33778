package httpapi

import (
	"time"

	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/query"
)

// The answer to a write shows what the write has recorded, however late the read models are. The
// functions here give it the form in which the read models show it, so that both are rendered alike.

// writtenDestination leaves the health out: no write of a caller changes it.
func writtenDestination(w command.Result[destination.State], now time.Time) query.Destination {
	s := w.Value
	return query.Destination{
		ID:           w.ID,
		Organization: s.Organization,
		Settings:     s.Settings,
		Status:       string(s.Status),
		StatusReason: wire.Nullable(s.StatusReason),
		CreatedAt:    s.CreatedAt,
		UpdatedAt:    s.UpdatedAt,
		Revision:     int64(w.Revision),
		Secrets:      activeSecrets(s, now),
	}
}

func writtenSubscription(w command.Result[subscription.State]) query.Subscription {
	s := w.Value
	return query.Subscription{
		ID:           w.ID,
		Organization: s.Organization,
		Destination:  s.Destination,
		Settings:     s.Settings,
		Active:       s.Status == subscription.StatusActive,
		CreatedAt:    s.CreatedAt,
		UpdatedAt:    s.UpdatedAt,
		Revision:     int64(w.Revision),
	}
}

func writtenFeed(w command.Result[feed.State]) query.Feed {
	s := w.Value
	return query.Feed{
		ID:            w.ID,
		Name:          s.Settings.Name,
		Description:   s.Settings.Description,
		Enabled:       s.Status == feed.StatusEnabled,
		EnabledSource: s.EnabledBy,
		EnabledReason: wire.Nullable(s.EnabledReason),
		FeedConfig:    query.FeedConfig{Version: s.Settings.Config.Version},
		CreatedAt:     s.CreatedAt,
		UpdatedAt:     s.UpdatedAt,
	}
}

// writtenAssociation is the one of a feed with a source that was attached to it.
func writtenAssociation(w command.Result[feed.State], in command.AttachSource) query.Association {
	a, _ := w.Value.SourceAssociation(in.SourceID)
	return query.Association{
		ID:         a.ID,
		FeedID:     w.ID,
		SourceType: a.SourceType,
		SourceID:   a.SourceID,
		CreatedAt:  a.At,
	}
}
