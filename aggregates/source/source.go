// Package source implements the aggregate of one outside place of happenings: its properties, its schedule, and the
// result of its last visit.
//
//	(none) ──Register──▶ registered ──Start──▶ collecting ──Complete──▶ ok
//	                                    ▲          ├──Fail─────────────▶ failing
//	                                    │          ├──LackCredentials──▶ needs credentials
//	                                    │          └──NeedJavaScript───▶ needs JavaScript
//	                                    └──── on request ◀─────────────────┘
//
//	any of them ──Revise──▶ the same, with other settings
//	any of them ──Pause──▶ paused ──Resume──▶ the state before; without visits meanwhile
//
// A walk through a source is recorded if it was requested, or if it has news: its happenings have changed, it fails,
// it fails no longer. The many routine walks without changes are not recorded: they, and the time of the next one, are
// stored beside the events, see package visiting.
//
// Sources belong to no organization: any feed may use one.
package source

import (
	"encoding/json"
	"slices"
	"time"

	"carillon/eventstore"
)

// Types of sources in the spelling of the API.
const (
	TypeSite          = "site"
	TypeSitemap       = "sitemap"
	TypeSiteIndexPage = "siteIndexPage"
	TypeInstagram     = "instagram"
	TypeFacebook      = "facebook"
	TypeTikTok        = "tiktok"
	TypeTwitter       = "twitter"
)

// Pages returns the types of sources that have a URL.
func Pages() []string { return []string{TypeSite, TypeSitemap, TypeSiteIndexPage} }

// Accounts returns the types of sources that have a handle.
func Accounts() []string { return []string{TypeInstagram, TypeFacebook, TypeTikTok, TypeTwitter} }

// Types returns all source types, in the interface's order.
func Types() []string { return append(Pages(), Accounts()...) }

// IsPage reports whether sources of a type have a URL.
func IsPage(sourceType string) bool { return slices.Contains(Pages(), sourceType) }

// Event is a stored fact about a source.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Registered creates a source.
	Registered struct {
		Type     string    `json:"type"`
		URL      string    `json:"url,omitempty"`
		Handle   string    `json:"handle,omitempty"`
		Timezone string    `json:"timezone,omitempty"` // IANA zone of dates without one
		At       time.Time `json:"at"`
	}
	// CollectionRequested requests a visit before its time.
	CollectionRequested struct {
		At time.Time `json:"at"`
	}
	// CollectionStarted begins a requested walk. A walk whose stored state was lost never ends by itself; the next one
	// ends it.
	CollectionStarted struct {
		Number int       `json:"number"` // counts the source's walks from 1, including routine ones
		At     time.Time `json:"at"`
	}
	// CollectionCompleted ends a complete walk.
	CollectionCompleted struct {
		Number          int             `json:"number"`
		Counts          Counts          `json:"counts"`
		Cursor          json.RawMessage `json:"cursor,omitempty"` // only in old events: the position of the next visit
		NotModified     bool            `json:"notModified,omitempty"`
		Notes           []Note          `json:"notes,omitempty"`
		IntervalSeconds int             `json:"intervalSeconds"` // adapted to the frequency of changes
		NextAt          time.Time       `json:"nextAt"`
		At              time.Time       `json:"at"`
	}
	// CollectionFailed ends a failed walk. Further failures of the same kind are not recorded.
	CollectionFailed struct {
		Number   int       `json:"number"`
		Reason   string    `json:"reason"`  // a stable name: "robots", "http_status"
		Message  string    `json:"message"` // for people; without secrets
		Failures int       `json:"failures"`
		NextAt   time.Time `json:"nextAt"`
		At       time.Time `json:"at"`
	}
	// CredentialsMissing ends a walk that the platform refused.
	CredentialsMissing struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
	}
	// JavaScriptNeeded ends a walk with pages that are empty until their scripts have run. It does not concern the
	// source's happenings.
	JavaScriptNeeded struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
	}
	// Paused prevents visits of the source, for example because its owner objects. A second one changes the reason.
	Paused struct {
		Reason string    `json:"reason"` // for people
		At     time.Time `json:"at"`
	}
	// Resumed ends a pause.
	Resumed struct {
		At time.Time `json:"at"`
	}
	// Revised replaces the settings. The pages are read again.
	Revised struct {
		Settings

		At time.Time `json:"at"`
	}
)

// Lasting reports whether failures of a reason do not pass by themselves.
func Lasting(reason string) bool {
	switch reason {
	case "unsupported_type", "robots", "too_large", "too_complex", "redirects", "blocked_address", "bad_url",
		"unsupported_content", "unknown_account", "private_account":
		return true
	}
	return false
}

// Counts are the results of a visit.
type Counts struct {
	Pages     int `json:"pages"`
	Observed  int `json:"observed"`  // visible happenings
	New       int `json:"new"`       // first observations at this source
	Revised   int `json:"revised"`   // changed happenings
	WentStale int `json:"wentStale"` // no longer visible
}

// Changed reports whether the source has changed since the previous visit.
func (c Counts) Changed() bool { return c.New+c.Revised+c.WentStale > 0 }

// Note explains to operators why less was found than the source shows.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Status of a source.
type Status string

// A source is walked repeatedly, one walk at a time.
const (
	StatusNone       Status = ""           // it does not exist
	StatusWaiting    Status = "waiting"    // for its next requested or routine walk
	StatusCollecting Status = "collecting" // a requested walk has not ended
)

// Outcomes of a source's last recorded walk. That of a failed one is its reason.
const (
	outcomeOK          = "ok"
	outcomeCredentials = "needs credentials" //nolint:gosec // it is none
	outcomeJavaScript  = "needs javascript"
)

// State is the state for decisions.
type State struct {
	Status   Status
	Type     string
	Started  int // the number of the last recorded walk
	Failures int // in a row, as far as recorded
	Interval time.Duration
	Outcome  string // of the last recorded walk, "" before the first
	Notes    []Note // of it
	Paused   string // reason of the pause, "" if it is not paused
	Settings Settings
}

func (e Registered) evolve(s State) State {
	s.Status, s.Type, s.Interval = StatusWaiting, e.Type, FirstInterval
	return s
}

func (CollectionRequested) evolve(s State) State { return s }

func (e CollectionStarted) evolve(s State) State {
	s.Status, s.Started = StatusCollecting, e.Number
	return s
}

// OutcomeOf returns the outcome of the walk that an event ends, as in State.Outcome; "" for other events.
func OutcomeOf(event Event) string { return event.evolve(State{}).Outcome }

func (e CollectionCompleted) evolve(s State) State {
	s = s.over(e.Number, outcomeOK)
	s.Interval = time.Duration(e.IntervalSeconds) * time.Second
	if !e.NotModified {
		s.Notes = e.Notes
	}
	return s
}

func (e CollectionFailed) evolve(s State) State {
	s = s.over(e.Number, e.Reason)
	s.Failures = e.Failures
	return s
}

func (e CredentialsMissing) evolve(s State) State { return s.over(e.Number, outcomeCredentials) }

func (e JavaScriptNeeded) evolve(s State) State { return s.over(e.Number, outcomeJavaScript) }

func (e Paused) evolve(s State) State {
	s.Paused = e.Reason
	return s
}

func (Resumed) evolve(s State) State {
	s.Paused = ""
	return s
}

func (e Revised) evolve(s State) State {
	s.Settings = e.Settings
	return s
}

func (s State) over(number int, outcome string) State {
	s.Status, s.Started, s.Outcome, s.Failures = StatusWaiting, max(s.Started, number), outcome, 0
	return s
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Registered]("source.registered.v1"),
	eventstore.Case[Event, CollectionRequested]("source.collection-requested.v1"),
	eventstore.Case[Event, CollectionStarted]("source.collection-started.v1"),
	eventstore.Case[Event, CollectionCompleted]("source.collection-completed.v1"),
	eventstore.Case[Event, CollectionFailed]("source.collection-failed.v1"),
	eventstore.Case[Event, CredentialsMissing]("source.credentials-missing.v1"),
	eventstore.Case[Event, JavaScriptNeeded]("source.javascript-needed.v1"),
	eventstore.Case[Event, Paused]("source.paused.v1"),
	eventstore.Case[Event, Resumed]("source.resumed.v1"),
	eventstore.Case[Event, Revised]("source.revised.v1"),
)

// Aggregate binds the functions to the streams "source-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "source",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
