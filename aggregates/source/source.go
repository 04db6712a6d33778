// Package source decides about one outside place that happenings are collected from: what it is, when it is visited
// next, and how its last visit went.
//
//	(none) ──Register──▶ registered ──Start──▶ collecting ──Complete──▶ ok
//	                                    ▲          ├──Fail─────────────▶ failing
//	                                    │          ├──LackCredentials──▶ needs credentials
//	                                    │          └──NeedJavaScript───▶ needs JavaScript
//	                                    └── when due, or on request ◀──────┘
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
	// CollectionStarted begins a visit. One that never ends was cut off with its process.
	CollectionStarted struct {
		Number int       `json:"number"` // counts the source's visits from 1
		At     time.Time `json:"at"`
	}
	// CollectionCompleted ends a visit that saw everything it came for.
	CollectionCompleted struct {
		Number          int             `json:"number"`
		Counts          Counts          `json:"counts"`
		Cursor          json.RawMessage `json:"cursor,omitempty"` // where the next visit goes on; the collector's own
		NotModified     bool            `json:"notModified,omitempty"`
		Notes           []Note          `json:"notes,omitempty"`
		IntervalSeconds int             `json:"intervalSeconds"` // as adapted to how often the source changes
		NextAt          time.Time       `json:"nextAt"`
		At              time.Time       `json:"at"`
	}
	// CollectionFailed ends a visit that did not.
	CollectionFailed struct {
		Number   int       `json:"number"`
		Reason   string    `json:"reason"`  // a stable name: "robots", "http_status"
		Message  string    `json:"message"` // for people; no secrets
		Failures int       `json:"failures"`
		NextAt   time.Time `json:"nextAt"`
		At       time.Time `json:"at"`
	}
	// CredentialsMissing ends a visit that the platform did not let in.
	CredentialsMissing struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
	}
	// JavaScriptNeeded ends a visit that saw pages which are empty until their scripts have run. It says nothing about
	// what the source shows.
	JavaScriptNeeded struct {
		Number  int       `json:"number"`
		Message string    `json:"message"`
		NextAt  time.Time `json:"nextAt"`
		At      time.Time `json:"at"`
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

// A source is visited again and again, one visit at a time.
const (
	StatusNone       Status = ""           // it does not exist
	StatusWaiting    Status = "waiting"    // for its next visit
	StatusCollecting Status = "collecting" // the last visit has not ended
)

// State is what decisions need.
type State struct {
	Status   Status
	Type     string
	URL      string
	Handle   string
	Timezone string
	Started  int // visits so far
	Failures int // in a row
	Interval time.Duration
	Created  time.Time
}

func (e Registered) evolve(s State) State {
	s.Type, s.URL, s.Handle, s.Timezone, s.Created = e.Type, e.URL, e.Handle, e.Timezone, e.At
	s.Status, s.Interval = StatusWaiting, firstInterval
	return s
}

func (CollectionRequested) evolve(s State) State { return s }

func (e CollectionStarted) evolve(s State) State {
	s.Status, s.Started = StatusCollecting, e.Number
	return s
}

func (e CollectionCompleted) evolve(s State) State {
	s.Status, s.Failures, s.Interval = StatusWaiting, 0, time.Duration(e.IntervalSeconds)*time.Second
	return s
}

func (e CollectionFailed) evolve(s State) State {
	s.Status, s.Failures = StatusWaiting, e.Failures
	return s
}

func (CredentialsMissing) evolve(s State) State {
	s.Status = StatusWaiting
	return s
}

func (e JavaScriptNeeded) evolve(s State) State {
	s.Status, s.Failures = StatusWaiting, 0
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
