// Package source decides about one outside place that happenings are collected from: what it is, when it is visited
// next, and how its last visit went.
//
//	(none) ──Register──▶ registered ──Start──▶ collecting ──Complete──▶ ok
//	                                    ▲          ├──Fail─────────────▶ failing
//	                                    │          ├──LackCredentials──▶ needs credentials
//	                                    │          └──NeedJavaScript───▶ needs JavaScript
//	                                    └──── when somebody asks ◀─────────┘
//
//	any of them ──Pause──▶ paused ──Resume──▶ as it was: nobody visits it meanwhile
//
// A walk through a source is a fact if somebody asked for it, or if it says something new: what it found has changed,
// it fails, it fails no longer. Of the many walks by routine that find everything as it was, nothing is recorded: where
// they are known, and when the next one is due, is kept beside the events, see package collection.
//
// Sources belong to no organization: any feed may be filled from one.
package source

import (
	"encoding/json"
	"time"

	"carillon/eventstore"
)

// The types of sources as the API spells them. The first three are found by a URL, the others are accounts.
const (
	TypeSite          = "site"
	TypeSitemap       = "sitemap"
	TypeSiteIndexPage = "siteIndexPage"
	TypeInstagram     = "instagram"
	TypeFacebook      = "facebook"
	TypeTikTok        = "tiktok"
	TypeTwitter       = "twitter"
)

// Types are all source types, in the interface's order.
func Types() []string {
	return []string{TypeSite, TypeSitemap, TypeSiteIndexPage, TypeInstagram, TypeFacebook, TypeTikTok, TypeTwitter}
}

// IsPage says that a source type is found by a URL; the others are accounts, found by a handle.
func IsPage(sourceType string) bool {
	return sourceType == TypeSite || sourceType == TypeSitemap || sourceType == TypeSiteIndexPage
}

// Event is a stored fact about a source.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Registered begins a source.
	Registered struct {
		Type     string    `json:"type"`
		URL      string    `json:"url,omitempty"`
		Handle   string    `json:"handle,omitempty"`
		Timezone string    `json:"timezone,omitempty"` // IANA; in it are dates meant that name none
		At       time.Time `json:"at"`
	}
	// CollectionRequested asks for a visit before its time.
	CollectionRequested struct {
		At time.Time `json:"at"`
	}
	// CollectionStarted begins a walk that somebody asked for. One that never ends was lost with the memory of it; the
	// next one ends it.
	CollectionStarted struct {
		Number int       `json:"number"` // counts the source's walks from 1, those by routine as well
		At     time.Time `json:"at"`
	}
	// CollectionCompleted ends a walk that saw everything it came for.
	CollectionCompleted struct {
		Number          int             `json:"number"`
		Counts          Counts          `json:"counts"`
		Cursor          json.RawMessage `json:"cursor,omitempty"` // only in old events: where the next visit went on
		NotModified     bool            `json:"notModified,omitempty"`
		Notes           []Note          `json:"notes,omitempty"`
		IntervalSeconds int             `json:"intervalSeconds"` // as adapted to how often the source changes
		NextAt          time.Time       `json:"nextAt"`
		At              time.Time       `json:"at"`
	}
	// CollectionFailed ends a walk that did not. More failures of the same kind are not recorded.
	CollectionFailed struct {
		Number   int       `json:"number"`
		Reason   string    `json:"reason"`  // a stable name: "robots", "http_status"
		Message  string    `json:"message"` // for people; no secrets
		Failures int       `json:"failures"`
		NextAt   time.Time `json:"nextAt"`
		At       time.Time `json:"at"`
	}
	// CredentialsMissing ends a walk that the platform did not let in.
	CredentialsMissing struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
	}
	// JavaScriptNeeded ends a walk that saw pages which are empty until their scripts have run. It says nothing about
	// what the source shows.
	JavaScriptNeeded struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
	}
	// Paused keeps everybody from visiting the source, as its owner objects, say. A second one says another reason.
	Paused struct {
		Reason string    `json:"reason"` // for people
		At     time.Time `json:"at"`
	}
	// Resumed ends a pause.
	Resumed struct {
		At time.Time `json:"at"`
	}
)

// Counts say what a visit came to.
type Counts struct {
	Pages     int `json:"pages"`
	Observed  int `json:"observed"`  // happenings on show
	New       int `json:"new"`       // of them never seen at this source
	Revised   int `json:"revised"`   // of them different from before
	WentStale int `json:"wentStale"` // no longer on show
}

// Changed says that the source did not look as it did the visit before.
func (c Counts) Changed() bool { return c.New+c.Revised+c.WentStale > 0 }

// Note tells operators why less was found than the source shows.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Status of a source.
type Status string

// A source is walked again and again, one walk at a time.
const (
	StatusNone       Status = ""           // it does not exist
	StatusWaiting    Status = "waiting"    // for its next walk, or one by routine
	StatusCollecting Status = "collecting" // a walk that somebody asked for has not ended
)

// What a source's last recorded walk came to. A failed one came to its reason.
const (
	outcomeOK          = "ok"
	outcomeCredentials = "needs credentials" //nolint:gosec // it is none
	outcomeJavaScript  = "needs javascript"
)

// State is what decisions need.
type State struct {
	Status   Status
	Type     string
	Started  int // the number of the last recorded walk
	Failures int // in a row, as far as they were recorded
	Interval time.Duration
	Outcome  string // of the last recorded walk, "" before the first
	Notes    []Note // of it
	Paused   string // why nobody may visit it, "" where somebody may
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

// OutcomeOf says what a walk came to that ended with an event, as State.Outcome does; "" for an event that ends none.
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

func (s State) over(number int, outcome string) State {
	s.Status, s.Started, s.Outcome, s.Failures = StatusWaiting, max(s.Started, number), outcome, 0
	return s
}

// Events names each fact as stored. Never rename; add ".v2" and upcast.
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
)

// Aggregate binds it all to the streams "source-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "source",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
