package routing

import (
	"slices"
	"sort"
	"strings"
	"unique"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
)

// wants holds the filter of a subscription. Equal ones are one copy in memory, however many subscriptions,
// organizations and process managers have them; it is freed with the last of them.
type wants struct{ unique.Handle[packed] }

// packed is the part of settings by which a subscription matches, as one comparable value.
type packed struct {
	types    string // patterns, sorted, separated by spaces
	scope    string
	feedType string
	pins     string // sorted, pinSize bytes each
}

const pinSize = 16 + 1 // the feed's id, and the place of its kind in subscription.FeedTypes

// wanted packs settings.
func wanted(s subscription.Settings) wants {
	types := slices.Compact(slices.Sorted(slices.Values(s.EventTypes)))
	pins := make([]string, len(s.Feeds))
	for i, pin := range s.Feeds {
		pins[i] = string(append(pin.FeedID[:], kindOf(pin.FeedType)))
	}
	slices.Sort(pins)
	return wants{unique.Make(packed{
		types:    strings.Join(types, " "),
		scope:    s.ScopeKind,
		feedType: s.FeedType,
		pins:     strings.Join(slices.Compact(pins), ""),
	})}
}

// kindOf returns the place of a kind of feeds in subscription.FeedTypes, or 255.
func kindOf(feedType string) byte {
	return byte(slices.Index(subscription.FeedTypes, feedType)) //nolint:gosec // a few kinds; -1 becomes 255
}

// settings unpacks them.
func (w wants) settings() subscription.Settings {
	p := w.Value()
	s := subscription.Settings{EventTypes: strings.Fields(p.types), ScopeKind: p.scope, FeedType: p.feedType}
	for at := 0; at < len(p.pins); at += pinSize {
		kind := subscription.FeedTypes[p.pins[at+pinSize-1]]
		s.Feeds = append(s.Feeds, subscription.Pin{FeedType: kind,
			FeedID: uuid.UUID([]byte(p.pins[at : at+pinSize-1]))})
	}
	return s
}

// matches reports whether an event of a type from a feed is wanted, by the rules of subscription.Settings.Matches.
func (w wants) matches(eventType, feedType string, feed uuid.UUID) bool {
	p := w.Value()
	if !anyMatches(p.types, eventType) {
		return false
	}
	switch p.scope {
	case subscription.ScopeAll:
		return true
	case subscription.ScopeFeedType:
		return feed != uuid.Nil && p.feedType == feedType
	}
	kind := kindOf(feedType)
	for at := p.find(feed); strings.HasPrefix(p.pins[at:], string(feed[:])); at += pinSize {
		if p.pins[at+pinSize-1] == kind {
			return p.scope == subscription.ScopeFeeds
		}
	}
	return false
}

func anyMatches(patterns, eventType string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		if subscription.MatchesType(pattern, eventType) {
			return true
		}
	}
	return false
}

// PinsFeed reports whether a feed is pinned, of whichever kind.
func (w wants) PinsFeed(feed uuid.UUID) bool {
	p := w.Value()
	return strings.HasPrefix(p.pins[p.find(feed):], string(feed[:]))
}

// find returns the index at which the pins of a feed are, or would be inserted.
func (p packed) find(feed uuid.UUID) int {
	return pinSize * sort.Search(len(p.pins)/pinSize, func(i int) bool {
		return p.pins[i*pinSize:i*pinSize+len(feed)] >= string(feed[:])
	})
}

// MarshalJSON stores settings, as versions before did.
func (w wants) MarshalJSON() ([]byte, error) { return json.Marshal(w.settings()) }

// UnmarshalJSON reads what is stored.
func (w *wants) UnmarshalJSON(data []byte) error {
	var s subscription.Settings
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	*w = wanted(s)
	return nil
}
