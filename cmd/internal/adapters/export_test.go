package adapters

import (
	"maps"
	"slices"
	"time"

	"carillon/aggregates/organization"
	"carillon/command/curate"
)

// TakeOverAfter has others taken for dead after that time without their lock.
func (q *DeliveryQueue) TakeOverAfter(absence time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.after = absence
}

// SmallPages makes what a source carries come in pages of two.
func (c FeedCuration) SmallPages() FeedCuration {
	c.memory.page = 2
	return c
}

// Memory returns what it remembers.
func (c FeedCuration) Memory() (curate.Memory, curate.Likeness) { return c.memory, c.memory.likeness }

// CountedLimits are the limits that Claim can count.
func CountedLimits() []organization.Limit { return slices.Collect(maps.Keys(countedBy)) }

// WithoutCounter starts with no counter for a limit.
func WithoutCounter(limit organization.Limit) {
	by := maps.Clone(countedBy)
	delete(by, limit)
	complete(by)
}
