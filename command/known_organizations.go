package command

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/eventstore/panics"
)

// PublishForOthers is Publish for callers that name the organization: an unknown one is refused, since its event would
// reach no receiver.
func (c *Commands) PublishForOthers(
	ctx context.Context, by Caller, in Publish,
) (Result[publication.State], error) {
	if err := c.requireKnown(ctx, in.Organization); err != nil {
		return Result[publication.State]{ID: in.ID}, err
	}
	return c.Publish(ctx, by, in)
}

// CheckForOthers returns the index of the first event that PublishForOthers would refuse if it came after those before
// it, and the refusal. It records nothing.
func (c *Commands) CheckForOthers(ctx context.Context, events []Publish) (int, error) {
	published, err := c.published(ctx, events)
	if err != nil {
		return 0, err
	}
	for i, in := range events {
		if err := c.requireKnown(ctx, in.Organization); err != nil {
			return i, err
		}
		named := in.ID != uuid.Nil
		command, err := c.publication(&in)
		if err != nil {
			return i, err
		}
		if _, err := publication.Aggregate.Decide(published[in.ID], command); err != nil {
			return i, refusePublish(in.ID, err)
		}
		if _, repeated := published[in.ID]; named && !repeated {
			published[in.ID] = publication.State{First: &command.Published}
		}
	}
	return 0, nil
}

// maxStateReads is how many states are read from the store at a time.
const maxStateReads = 16

// published reads the events that are published already under the ids of events, by their ids.
func (c *Commands) published(ctx context.Context, events []Publish) (map[uuid.UUID]publication.State, error) {
	var (
		mu    sync.Mutex
		found = map[uuid.UUID]publication.State{}
	)
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxStateReads)
	for _, in := range events {
		if in.ID == uuid.Nil {
			continue
		}
		reads.Go(panics.Task("publish", func() error {
			loaded, err := publication.Aggregate.Load(ctx, c.Store, in.ID)
			if err == nil && loaded.State.First != nil {
				mu.Lock()
				defer mu.Unlock()
				found[in.ID] = loaded.State
			}
			return err
		}))
	}
	return found, reads.Wait()
}

// requireKnown refuses an organization that does not exist; the zero id names none. The event store is asked about one
// that was not used recently, so that one that another process registered a moment ago is found; for the others it
// costs a look into memory.
func (c *Commands) requireKnown(ctx context.Context, id uuid.UUID) error {
	now := c.now()
	if id == uuid.Nil {
		return nil
	}
	if seen, known := c.known.cache().Get(id); known && now.Sub(seen) < knownFor {
		return nil
	}
	loaded, err := organization.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return err
	case !loaded.State.Exists():
		return refuse(NotFound, "organizationId", "organizationId %s is no organization that exists: register it first, "+
			"or correct the id", id)
	}
	c.known.cache().Add(id, now)
	return nil
}

const (
	// knownFor is how long an organization counts as one that exists. Another process may delete it meanwhile; events for
	// it then reach no receiver, as those published just before.
	knownFor = 10 * time.Minute
	// maxRecentTimes bounds the memory of them, to some ten megabytes.
	maxRecentTimes = 100_000
)

// recentTimes keeps when keys came up last, for those that came up last. The zero value is ready to use.
type recentTimes[K comparable] struct {
	once sync.Once
	last *lru.Cache[K, time.Time]
}

func (t *recentTimes[K]) cache() *lru.Cache[K, time.Time] {
	t.once.Do(func() { t.last, _ = lru.New[K, time.Time](maxRecentTimes) }) // fails for a maximum below 1 only
	return t.last
}
