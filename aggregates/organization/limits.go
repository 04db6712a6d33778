package organization

import (
	"fmt"
	"slices"
	"time"
)

// Limit names a limited property or rate of an organization.
type Limit string

// Limits of an organization.
var (
	LimitDestinations          = kept("destinations", 10_000, "destinations")
	LimitSubscriptions         = kept("subscriptions", 100_000, "subscriptions")
	LimitPatternsAndPins       = kept("patternsAndPins", 300_000, "event types and pins of all subscriptions together")
	LimitFeeds                 = kept("feeds", 10_000, "feeds")
	LimitSources               = kept("sources", 100_000, "sources attached to feeds, counted per attachment")
	LimitKeys                  = kept("keys", 1000, "valid API keys")
	LimitRedeliveries          = kept("redeliveries", 100_000, "replayed and backfilled deliveries that wait")
	LimitFeedbackPerDay        = rate("feedbackPerDay", 100_000, day, "feedback given")
	LimitSourceAddressesPerDay = rate("sourceAddressesPerDay", 100, day, "sources attached by address")
	LimitBackfillEventsPerDay  = rate("backfillEventsPerDay", 5_000_000, day,
		"events that backfills go through, delivered before or not")
	LimitWritesPerDay      = rate("writesPerDay", 1_000_000, day, "requests that change something")
	LimitRequestsPerSecond = rate("requestsPerSecond", 10_000, time.Second, "requests of the API, on all nodes")

	definitions []Definition
)

// Bounds of an organization are fixed: no operator sets them. Their refusals are counted as those of limits are.
var (
	BoundStreams   = bound("streams")          // of listeners, on all nodes
	BoundBackfills = bound("backfills")        // and recoveries at a time, on all nodes
	BoundRequests  = bound("requestsUnderWay") // in one process
	BoundBodies    = bound("bodiesUnderWay")   // of requests, that one process reads

	bounds []Limit
)

const day = 24 * time.Hour

// Definition declares a limit.
type Definition struct {
	Limit   Limit
	Default int           // more than an organization needs, and no more than the others can bear
	Window  time.Duration // of a rate; 0 means that the number of things at a time is limited
	Counts  string        // for people
}

// kept declares a limit of the number of things at a time.
func kept(limit Limit, most int, counts string) Limit { return rate(limit, most, 0, counts) }

// rate declares a limit of a rate.
func rate(limit Limit, most int, window time.Duration, counts string) Limit {
	definitions = append(definitions, Definition{
		Limit:   limit,
		Default: most,
		Window:  window,
		Counts:  counts,
	})
	return limit
}

func bound(name Limit) Limit {
	bounds = append(bounds, name)
	return name
}

// Definitions lists all limits.
func Definitions() []Definition { return slices.Clone(definitions) }

// Bounds lists all bounds.
func Bounds() []Limit { return slices.Clone(bounds) }

// Limits are the ones set; others are as in Definitions.
type Limits map[Limit]int

// Defaults returns the default limits.
func Defaults() Limits {
	limits := Limits{}
	for _, d := range definitions {
		limits[d.Limit] = d.Default
	}
	return limits
}

// Definition returns the declaration of a limit.
func (l Limit) Definition() Definition {
	for _, d := range definitions {
		if d.Limit == l {
			return d
		}
	}
	return Definition{Limit: l}
}

// MaxLimit is the maximum of every limit.
const MaxLimit = 1_000_000_000

// Of returns a limit or its default.
func (l Limits) Of(limit Limit) int {
	if set, ok := l[limit]; ok {
		return set
	}
	return limit.Definition().Default
}

// LimitError reports that the organization has reached a limit.
type LimitError struct {
	Limit Limit
	Most  int
}

// Error returns a text with the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit %s: your organization may have %d; delete some, or ask the operator for more",
		e.Limit, e.Most)
}
