package organization

import (
	"fmt"
	"time"
)

// Limit names a limited property or rate of an organization.
type Limit string

// Limits of an organization. Definitions says what each counts.
const (
	LimitDestinations          Limit = "destinations"
	LimitSubscriptions         Limit = "subscriptions"
	LimitPatternsAndPins       Limit = "patternsAndPins"
	LimitFeeds                 Limit = "feeds"
	LimitSources               Limit = "sources"
	LimitKeys                  Limit = "keys"
	LimitRedeliveries          Limit = "redeliveries"
	LimitFeedbackPerDay        Limit = "feedbackPerDay"
	LimitSourceAddressesPerDay Limit = "sourceAddressesPerDay"
	LimitBackfillEventsPerDay  Limit = "backfillEventsPerDay"
	LimitWritesPerDay          Limit = "writesPerDay"
	LimitRequestsPerSecond     Limit = "requestsPerSecond"
)

// Bounds of an organization are fixed: no operator sets them. Their refusals are counted as those of limits are.
const (
	BoundStreams   Limit = "streams"          // of listeners, on all nodes
	BoundBackfills Limit = "backfills"        // and recoveries at a time, on all nodes
	BoundRequests  Limit = "requestsUnderWay" // in one process
	BoundBodies    Limit = "bodiesUnderWay"   // of requests, that one process reads
)

// Bounds lists all bounds.
func Bounds() []Limit { return []Limit{BoundStreams, BoundBackfills, BoundRequests, BoundBodies} }

// Definition declares a limit.
type Definition struct {
	Limit   Limit
	Default int           // more than an organization needs, and no more than the others can bear
	Window  time.Duration // of a rate; 0 means that the number of things at a time is limited
	Counts  string        // for people
}

func kept(limit Limit, most int, counts string) Definition { return rate(limit, most, 0, counts) }

func rate(limit Limit, most int, window time.Duration, counts string) Definition {
	return Definition{
		Limit:   limit,
		Default: most,
		Window:  window,
		Counts:  counts,
	}
}

const day = 24 * time.Hour

// Definitions lists all limits.
func Definitions() []Definition {
	return []Definition{
		kept(LimitDestinations, 10_000, "destinations"),
		kept(LimitSubscriptions, 100_000, "subscriptions"),
		kept(LimitPatternsAndPins, 300_000, "event types and pins of all subscriptions together"),
		kept(LimitFeeds, 10_000, "feeds"),
		kept(LimitSources, 100_000, "sources attached to feeds, counted per attachment"),
		kept(LimitKeys, 1000, "valid API keys"),
		kept(LimitRedeliveries, 100_000, "replayed and backfilled deliveries that wait"),
		rate(LimitFeedbackPerDay, 100_000, day, "feedback given"),
		rate(LimitSourceAddressesPerDay, 100, day, "sources attached by address"),
		rate(LimitBackfillEventsPerDay, 5_000_000, day, "events that backfills go through, delivered before or not"),
		rate(LimitWritesPerDay, 1_000_000, day, "requests that change something"),
		rate(LimitRequestsPerSecond, 10_000, time.Second, "requests of the API, on all nodes"),
	}
}

// Limits are the ones set; others are as in Definitions.
type Limits map[Limit]int

// Defaults returns the default limits.
func Defaults() Limits {
	limits := Limits{}
	for _, d := range Definitions() {
		limits[d.Limit] = d.Default
	}
	return limits
}

// Definition returns the declaration of a limit.
func (l Limit) Definition() Definition {
	for _, d := range Definitions() {
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
