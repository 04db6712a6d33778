package source

import (
	"time"
)

// Settings are what operators choose about the reading of a source's pages. The zero value is the default.
type Settings struct {
	// IgnoreLists leaves out lists without any markup, whose events are a guess.
	IgnoreLists bool `json:"ignoreLists,omitempty"`
	// Selectors name the events of its pages, which are read in place of any others then. Optional.
	Selectors Selectors `json:"selectors,omitzero"`
}

// Selectors are CSS selectors: of the elements that are events, and of the fields within each.
type Selectors struct {
	Event string `json:"event,omitempty"`
	Title string `json:"title,omitempty"` // Optional. Default: a heading, or a link
	Start string `json:"start,omitempty"` // Optional. Default: the only date
	End   string `json:"end,omitempty"`   // Optional
	Place string `json:"place,omitempty"` // Optional
	Link  string `json:"link,omitempty"`  // Optional. Default: the first link
}

// Named returns the selectors by their names, in the order of declaration.
func (s *Selectors) Named() []NamedSelector {
	return []NamedSelector{
		{Name: "event", Text: &s.Event}, {Name: "title", Text: &s.Title}, {Name: "start", Text: &s.Start},
		{Name: "end", Text: &s.End}, {Name: "place", Text: &s.Place}, {Name: "link", Text: &s.Link},
	}
}

// NamedSelector is a selector with its name.
type NamedSelector struct {
	Name string
	Text *string
}

// The schedule: the interval of a changed source is halved, that of an unchanged one grows by half, within limits. A
// failing source gets growing intervals.
const (
	// FirstInterval is the interval of a new source.
	FirstInterval = 30 * time.Minute
	// CredentialsInterval is the interval of a source that refuses access, ScriptsInterval that of a source without
	// events unless scripts run: sites are rewritten at times, but not hourly.
	CredentialsInterval = time.Hour
	ScriptsInterval     = 12 * time.Hour

	minInterval  = 10 * time.Minute
	maxInterval  = 24 * time.Hour
	firstBackOff = 5 * time.Minute
	tolerance    = 0.1 // of an interval, so that sources that were registered together drift apart
)

// Adapt returns the interval after a walk with or without changes.
func Adapt(interval time.Duration, changed bool) time.Duration {
	if changed {
		return max(interval/2, minInterval)
	}
	return max(min(interval*3/2, maxInterval), minInterval)
}

// BackOff returns the interval after a number of failures in a row, at least the requested one.
func BackOff(failures int, asked time.Duration) time.Duration {
	wait := firstBackOff
	for range failures - 1 {
		if wait >= maxInterval {
			break
		}
		wait *= 2
	}
	return min(max(wait, asked), maxInterval)
}

// Spread lengthens an interval by at most the tolerance, in whole seconds. The share, 0 to 1, is fixed for a source.
func Spread(interval time.Duration, share float64) time.Duration {
	share = min(max(share, 0), 1)
	return (interval + time.Duration(float64(interval)*tolerance*share)).Truncate(time.Second)
}
