package organization

import "fmt"

// Limit names a limited property or rate of an organization.
type Limit string

// Limits of an organization. Those of things limit the number at a time.
const (
	LimitDestinations    Limit = "destinations"
	LimitSubscriptions   Limit = "subscriptions"
	LimitPatternsAndPins Limit = "patternsAndPins" // of all its subscriptions together
	LimitFeeds           Limit = "feeds"
	LimitSources         Limit = "sources" // attached to its feeds, counted per attachment
	LimitKeys            Limit = "keys"    // valid ones
	LimitFeedbackPerDay  Limit = "feedbackPerDay"
	// LimitSourceAddressesPerDay limits the attachments of sources by address, if organizations may register sources.
	LimitSourceAddressesPerDay Limit = "sourceAddressesPerDay"
	LimitRequestsPerSecond     Limit = "requestsPerSecond" // of the API, on all nodes
	LimitRedeliveries          Limit = "redeliveries"      // pending replayed and backfilled deliveries
)

// Limits are the ones set; others are as in Defaults.
type Limits map[Limit]int

// Defaults returns the default limits: more than an organization needs, and no more than the others can bear.
func Defaults() Limits {
	return Limits{
		LimitDestinations:          10_000,
		LimitSubscriptions:         100_000,
		LimitPatternsAndPins:       300_000,
		LimitFeeds:                 10_000,
		LimitSources:               100_000,
		LimitKeys:                  1000,
		LimitFeedbackPerDay:        100_000,
		LimitSourceAddressesPerDay: 100,
		LimitRequestsPerSecond:     10_000,
		LimitRedeliveries:          100_000,
	}
}

// MaxLimit is the maximum of every limit.
const MaxLimit = 1_000_000_000

// Of returns a limit or its default.
func (l Limits) Of(limit Limit) int {
	if set, ok := l[limit]; ok {
		return set
	}
	return Defaults()[limit]
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
