package organization

import "fmt"

// Limit names something that an organization may have or do only so much of.
type Limit string

// The limits. Those of things that are kept bound how many there are at one time.
const (
	LimitDestinations      Limit = "destinations"
	LimitSubscriptions     Limit = "subscriptions"
	LimitPatternsAndPins   Limit = "patternsAndPins" // of all its subscriptions together
	LimitFeeds             Limit = "feeds"
	LimitSources           Limit = "sources" // attached to its feeds, each counted as often as it is attached
	LimitKeys              Limit = "keys"    // that work
	LimitFeedbackPerDay    Limit = "feedbackPerDay"
	LimitRequestsPerSecond Limit = "requestsPerSecond" // of the API, on all nodes together
	LimitRedeliveries      Limit = "redeliveries"      // replayed and backfilled deliveries that wait
)

// Limits are those that are set; the others are as in Defaults.
type Limits map[Limit]int

// Defaults returns what holds where nothing is set: more than an organization needs, and no more than the others can
// bear.
func Defaults() Limits {
	return Limits{
		LimitDestinations:      10_000,
		LimitSubscriptions:     100_000,
		LimitPatternsAndPins:   300_000,
		LimitFeeds:             10_000,
		LimitSources:           100_000,
		LimitKeys:              1000,
		LimitFeedbackPerDay:    100_000,
		LimitRequestsPerSecond: 10_000,
		LimitRedeliveries:      100_000,
	}
}

// MaxLimit bounds every limit.
const MaxLimit = 1_000_000_000

// Of is a limit as it holds.
func (l Limits) Of(limit Limit) int {
	if set, ok := l[limit]; ok {
		return set
	}
	return Defaults()[limit]
}

// LimitError says that the organization has as much of something as it may.
type LimitError struct {
	Limit Limit
	Most  int
}

// Error names the limit.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit %s: your organization may have %d; delete some, or ask the operator for more",
		e.Limit, e.Most)
}
