package source

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
)

// What a source refuses.
var (
	ErrUnknown = errors.New("source does not exist")
	ErrNumber  = errors.New("this is not the visit that is going on")
)

// Command is an intention; times arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Register begins a source. Registering one that exists changes nothing: the id says what it is (see ID).
	Register struct {
		Type     string
		URL      string
		Handle   string
		Timezone string
		At       time.Time
	}
	// Request asks for a visit soon.
	Request struct{ At time.Time }
	// Start begins the visit of a number, as far as that is what is wanted. It records nothing where the caller's view
	// of the source is out of date: that visit has begun already, or the one before, that he takes for cut off, has
	// ended.
	Start struct {
		Number   int
		Abandons bool // the visit before was seen to begin and not to end
		At       time.Time
	}
	// Complete ends a visit.
	Complete struct {
		Number      int
		Counts      Counts
		Cursor      json.RawMessage
		NotModified bool
		Notes       []Note
		Spread      float64 // 0 to 1: where in the tolerance of the schedule this source's turn is
		At          time.Time
	}
	// Fail ends a visit that did not get through.
	Fail struct {
		Number     int
		Reason     string
		Message    string
		RetryAfter time.Duration // what the other side asked for
		Spread     float64
		At         time.Time
	}
	// LackCredentials ends a visit that was not let in.
	LackCredentials struct {
		Number  int
		Message string
		Spread  float64
		At      time.Time
	}
	// NeedJavaScript ends a visit that saw nothing but scripts.
	NeedJavaScript struct {
		Number  int
		Message string
		Spread  float64
		At      time.Time
	}
)

var idNamespace = uuid.MustParse("0b0e3b5c-6f0a-5b55-9b53-1f7b6d6a6a11")

// ID derives the id of a source from what it is, so that registering it twice makes one source.
func ID(sourceType, url, handle, timezone string) uuid.UUID {
	return uuid.NewSHA1(idNamespace, []byte(sourceType+"\x1f"+url+"\x1f"+handle+"\x1f"+timezone))
}

func (c Register) decide(s State) ([]Event, error) {
	if s.Status != StatusNone {
		return nil, nil
	}
	return []Event{Registered(c)}, nil
}

func (c Request) decide(s State) ([]Event, error) {
	if s.Status == StatusNone {
		return nil, ErrUnknown
	}
	return []Event{CollectionRequested(c)}, nil
}

func (c Start) decide(s State) ([]Event, error) {
	wanted := c.Number > s.Started
	switch s.Status {
	case StatusNone:
		return nil, ErrUnknown
	case StatusWaiting:
		wanted = wanted && !c.Abandons
	case StatusCollecting: // that visit was cut off
	}
	if !wanted {
		return nil, nil
	}
	return []Event{CollectionStarted{Number: s.Started + 1, At: c.At}}, nil
}

func (c Complete) decide(s State) ([]Event, error) {
	if ended, err := s.ended(c.Number); ended || err != nil {
		return nil, err
	}
	interval := adapt(s.Interval, c.Counts.Changed())
	return []Event{CollectionCompleted{
		Number: c.Number, Counts: c.Counts, Cursor: c.Cursor, NotModified: c.NotModified, Notes: c.Notes,
		IntervalSeconds: int(interval / time.Second), NextAt: c.At.Add(spread(interval, c.Spread)), At: c.At,
	}}, nil
}

func (c Fail) decide(s State) ([]Event, error) {
	if ended, err := s.ended(c.Number); ended || err != nil {
		return nil, err
	}
	failures := s.Failures + 1
	wait := spread(max(backOff(failures), min(c.RetryAfter, maxInterval)), c.Spread)
	return []Event{CollectionFailed{
		Number: c.Number, Reason: c.Reason, Message: c.Message, Failures: failures, NextAt: c.At.Add(wait), At: c.At,
	}}, nil
}

func (c LackCredentials) decide(s State) ([]Event, error) {
	if ended, err := s.ended(c.Number); ended || err != nil {
		return nil, err
	}
	return []Event{CredentialsMissing{Number: c.Number, Message: c.Message, NextAt: c.At.Add(spread(credentialsInterval, c.Spread)), At: c.At}}, nil
}

func (c NeedJavaScript) decide(s State) ([]Event, error) {
	if ended, err := s.ended(c.Number); ended || err != nil {
		return nil, err
	}
	return []Event{JavaScriptNeeded{Number: c.Number, Message: c.Message, NextAt: c.At.Add(spread(scriptsInterval, c.Spread)), At: c.At}}, nil
}

// ended says that the visit is over already, which makes ending it again a repeat.
func (s State) ended(number int) (bool, error) {
	switch {
	case s.Status == StatusNone:
		return false, ErrUnknown
	case number != s.Started:
		return false, ErrNumber
	}
	return s.Status == StatusWaiting, nil
}
