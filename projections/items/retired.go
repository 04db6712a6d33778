package items

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/projections/column"
)

// retired is a retirement of happenings.
type retired struct {
	retirement.HappeningsRetired

	revision eventstore.Revision
}

// decodeRetired returns nil for what retires no happenings.
func decodeRetired(recorded *eventstore.Recorded) (*retired, error) {
	event, err := retirement.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	switch e := event.(type) {
	case retirement.HappeningsRetired:
		return &retired{e, recorded.Revision}, nil
	case retirement.Retired, retirement.Removed:
	}
	return nil, nil //nolint:nilnil // see above
}

// given is the feedback of an organization to items of a feed on a day.
type given struct {
	feed uuid.UUID
	retirement.Feedback
}

// Feedback of a feed that is deleted is gone with it.
var addFeedback = column.SQL(`
	INSERT INTO retired_feedback AS r (feed_id, organization, day, rating, count)
	SELECT u.feed_id, u.organization, u.day::date, u.rating, u.count FROM %s JOIN wanted w ON w.feed_id = u.feed_id
	ON CONFLICT (feed_id, organization, day, rating) DO UPDATE SET count = r.count + excluded.count`,
	column.New[column.UUIDs]("feed_id", "uuid", func(g given) uuid.UUID { return g.feed }),
	column.New[column.UUIDs]("organization", "uuid", func(g given) uuid.UUID { return g.Organization }),
	column.New[[]string]("day", "text", func(g given) string { return g.Day }),
	column.New[[]string]("rating", "text", func(g given) string { return g.Rating }),
	column.New[[]int64]("count", "bigint", func(g given) int64 { return g.Count }),
)

// apply drops the rows of the happenings, and adds the counts. A row may be there or not, as it is after a rebuild from
// a log that has lost its events.
func (r *retired) apply(ctx context.Context, tx pgx.Tx) error {
	var happenings, ids column.UUIDs
	for _, h := range r.Happenings {
		happenings = append(happenings, h.ID)
		for _, in := range h.In {
			ids = append(ids, item.ID(r.Feeds[in], h.ID))
		}
	}
	feedback := make([]given, len(r.Feedback))
	for i, f := range r.Feedback {
		feedback[i] = given{r.Feeds[f.In], f}
	}
	var batch pgx.Batch
	batch.Queue(planByIndex)
	batch.Queue(touchFeeds, column.UUIDs(r.Feeds))
	batch.Queue("DELETE FROM occurrences WHERE item_id IN (SELECT id FROM items WHERE happening_id = ANY($1))", happenings)
	batch.Queue("DELETE FROM feedback WHERE feed_id = ANY($1) AND item_id = ANY($2)", column.UUIDs(r.Feeds), ids)
	for _, table := range []string{"items", "shown", "former", "merged"} {
		batch.Queue("DELETE FROM "+table+" WHERE happening_id = ANY($1)", happenings)
	}
	addFeedback.Queue(&batch, feedback)
	batch.Queue("INSERT INTO retirement (revision) VALUES ($1) ON CONFLICT (singleton) DO UPDATE SET revision = "+
		"excluded.revision", int64(r.revision))
	return tx.SendBatch(ctx, &batch).Close()
}
