package console

import (
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (c *Console) activityRoutes(r chi.Router) { r.Get("/activity", c.page(c.showActivity)) }

const (
	activityTime = 7 * 24 * time.Hour
	maxActivity  = 200
)

// activityPage is the changes of all destinations in a week.
type activityPage struct {
	Entries []activityEntry // newest first
	More    bool
	Since   time.Time
}

// activityEntry is a change of a destination. It has no name if the destination was deleted.
type activityEntry struct {
	entry

	Name string
}

// showActivity answers GET /console/activity.
func (c *Console) showActivity(v *visit) (screen, error) {
	shown := activityPage{Since: c.Now().UTC().Add(-activityTime)}
	list, err := c.Queries.Activity(v.Context(), v.organization(), shown.Since, maxActivity+1)
	if err != nil {
		return screen{}, err
	}
	if shown.More = len(list) > maxActivity; shown.More {
		list = list[:maxActivity]
	}
	changed := wire.ListOf(list, func(e query.AuditEntry) uuid.UUID { return e.Destination })
	names, err := c.Queries.DestinationNames(v.Context(), v.organization(), changed)
	for _, e := range list {
		shown.Entries = append(shown.Entries, activityEntry{
			entry: entry{AuditEntry: e, What: describe(e, query.AuditDetail{}), Link: v.destinationPath(e.Destination, "")},
			Name:  names[e.Destination],
		})
	}
	return screen{Title: "Activity", Template: "activity", Data: shown}, err
}
