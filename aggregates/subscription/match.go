package subscription

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Limits of settings.
const (
	MaxEventTypes = 100
	MaxPins       = 1000
)

// FeedTypes are the kinds of feed.
var FeedTypes = []string{"news", "event"}

// InvalidError reports the field that breaks a rule of settings, and the rule.
type InvalidError struct{ Field, Problem string }

// Error returns "field problem".
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

var pattern = regexp.MustCompile(`^(\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.\*)?)$`)

// ValidPattern reports whether p is an exact type, a trailing wildcard such as "news.*", or "*".
func ValidPattern(p string) bool { return len(p) <= 255 && pattern.MatchString(p) }

var errPatterns = errors.New("must be exact types such as news.item.added, trailing wildcards such as news.*, or *, " +
	"separated by commas")

// ParsePatterns returns the patterns of a list filter, of which there are several if commas separate them.
func ParsePatterns(text string) ([]string, error) {
	patterns := strings.Split(text, ",")
	for i, p := range patterns {
		patterns[i] = strings.TrimSpace(p)
		if !ValidPattern(patterns[i]) || i == MaxEventTypes {
			return nil, errPatterns
		}
	}
	return patterns, nil
}

// MatchesType reports whether a type matches a pattern.
func MatchesType(pattern, eventType string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(eventType, prefix)
	}
	return pattern == eventType
}

// Matches reports whether the settings match an event of a type from a feed. An event without a feed (zero id) is only
// in the scope "all".
func (d Settings) Matches(eventType, feedType string, feed uuid.UUID) bool {
	if !slices.ContainsFunc(d.EventTypes, func(p string) bool { return MatchesType(p, eventType) }) {
		return false
	}
	switch d.ScopeKind {
	case ScopeAll:
		return true
	case ScopeFeedType:
		return feed != uuid.Nil && d.FeedType == feedType
	case ScopeFeeds:
		return slices.Contains(d.Feeds, Pin{FeedType: feedType, FeedID: feed})
	}
	return false
}

// Validate checks settings as a whole. Callers check whether exact types are in the catalog, and whether the
// organization may read the pinned feeds.
func (d Settings) Validate() error {
	invalid := func(field, format string, args ...any) error {
		return &InvalidError{Field: field, Problem: fmt.Sprintf(format, args...)}
	}
	if n := len(d.EventTypes); n < 1 || n > MaxEventTypes {
		return invalid("eventTypes", "must list 1 to %d event types, got %d", MaxEventTypes, n)
	}
	for i, p := range d.EventTypes {
		if !ValidPattern(p) {
			return invalid(fmt.Sprintf("eventTypes[%d]", i), "must be an exact type such as \"news.item.added\", a trailing "+
				"wildcard such as \"news.*\", or \"*\"")
		}
	}
	if !slices.Contains([]string{ScopeAll, ScopeFeedType, ScopeFeeds}, d.ScopeKind) {
		return invalid("scopeKind", "must be \"all\", \"feed_type\" or \"feeds\"")
	}
	switch {
	case d.ScopeKind == ScopeFeedType && !slices.Contains(FeedTypes, d.FeedType):
		return invalid("feedType", "must be \"news\" or \"event\" with scopeKind \"feed_type\"")
	case d.ScopeKind != ScopeFeedType && d.FeedType != "":
		return invalid("feedType", "is allowed with scopeKind \"feed_type\" only")
	case d.ScopeKind == ScopeFeeds && (len(d.Feeds) < 1 || len(d.Feeds) > MaxPins):
		return invalid("feeds", "must pin 1 to %d feeds with scopeKind \"feeds\", got %d", MaxPins, len(d.Feeds))
	case d.ScopeKind != ScopeFeeds && len(d.Feeds) > 0:
		return invalid("feeds", "is allowed with scopeKind \"feeds\" only")
	}
	for i, pin := range d.Feeds {
		if !slices.Contains(FeedTypes, pin.FeedType) {
			return invalid(fmt.Sprintf("feeds[%d].feedType", i), "must be \"news\" or \"event\"")
		}
		if pin.FeedID == uuid.Nil {
			return invalid(fmt.Sprintf("feeds[%d].feedId", i), "must be the UUID of a feed")
		}
	}
	return nil
}
