package source

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Errors of a source.
var (
	ErrUnknown = errors.New("source does not exist")
	ErrNumber  = errors.New("a later walk of the source has begun")
	ErrPaused  = errors.New("source is paused")
)

// Command is an intention; times arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Register creates a source. Repeating it changes nothing, because the id is derived from the source (see ID).
	Register struct {
		Type     string
		URL      string
		Handle   string
		Timezone string
		At       time.Time
	}
	// Pause prevents visits of the source, with a reason, which is not empty. The results of a current visit may still be
	// recorded.
	Pause struct {
		Reason string
		At     time.Time
	}
	// Resume ends a pause.
	Resume struct{ At time.Time }
	// Revise replaces the settings.
	Revise struct {
		Settings

		At time.Time
	}
	// Request requests a walk soon.
	Request struct{ At time.Time }
	// Start begins the requested walk of a number. It records nothing if that walk, or a later one, has begun already.
	Start struct {
		Number int
		At     time.Time
	}
	// Complete ends a walk.
	Complete struct {
		Number      int
		Counts      Counts
		NotModified bool
		Notes       []Note
		Interval    time.Duration
		NextAt      time.Time
		At          time.Time
	}
	// Fail ends a failed walk.
	Fail struct {
		Number   int
		Reason   string
		Message  string
		Failures int // in a row, with this one
		NextAt   time.Time
		At       time.Time
	}
	// LackCredentials ends a walk that the platform refused.
	LackCredentials struct {
		Number  int
		Message string
		NextAt  time.Time
		At      time.Time
	}
	// NeedJavaScript ends a walk that found nothing but scripts.
	NeedJavaScript struct {
		Number  int
		Message string
		NextAt  time.Time
		At      time.Time
	}
)

var idNamespace = uuid.MustParse("0b0e3b5c-6f0a-5b55-9b53-1f7b6d6a6a11")

// ID derives the id of a source from its properties, so that registering it twice creates one source.
func ID(sourceType, url, handle, timezone string) uuid.UUID {
	return uuid.NewSHA1(idNamespace, []byte(sourceType+"\x1f"+url+"\x1f"+handle+"\x1f"+timezone))
}

func (c Register) decide(s State) ([]Event, error) {
	if s.Status != StatusNone {
		return nil, nil
	}
	return []Event{Registered(c)}, nil
}

func (c Pause) decide(s State) ([]Event, error) {
	switch {
	case s.Status == StatusNone:
		return nil, ErrUnknown
	case s.Paused == c.Reason:
		return nil, nil
	}
	return []Event{Paused(c)}, nil
}

func (c Resume) decide(s State) ([]Event, error) {
	switch {
	case s.Status == StatusNone:
		return nil, ErrUnknown
	case s.Paused == "":
		return nil, nil
	}
	return []Event{Resumed(c)}, nil
}

func (c Revise) decide(s State) ([]Event, error) {
	switch {
	case s.Status == StatusNone:
		return nil, ErrUnknown
	case s.Settings == c.Settings:
		return nil, nil
	}
	return []Event{Revised(c)}, nil
}

// visitable returns an error if the source must not be visited.
func (s State) visitable() error {
	switch {
	case s.Status == StatusNone:
		return ErrUnknown
	case s.Paused != "":
		return fmt.Errorf("%w: %s", ErrPaused, s.Paused)
	}
	return nil
}

func (c Request) decide(s State) ([]Event, error) {
	if err := s.visitable(); err != nil {
		return nil, err
	}
	return []Event{CollectionRequested(c)}, nil
}

func (c Start) decide(s State) ([]Event, error) {
	if err := s.visitable(); err != nil {
		return nil, err
	}
	if c.Number <= s.Started {
		return nil, nil
	}
	return []Event{CollectionStarted(c)}, nil
}

func (c Complete) decide(s State) ([]Event, error) {
	news := c.Counts.Changed() || !c.NotModified && !slices.Equal(c.Notes, s.Notes)
	return s.end(c.Number, outcomeOK, news, CollectionCompleted{
		Number:          c.Number,
		Counts:          c.Counts,
		NotModified:     c.NotModified,
		Notes:           c.Notes,
		IntervalSeconds: int(c.Interval / time.Second),
		NextAt:          c.NextAt,
		At:              c.At,
	})
}

func (c Fail) decide(s State) ([]Event, error) {
	return s.end(c.Number, c.Reason, false, CollectionFailed(c))
}

func (c LackCredentials) decide(s State) ([]Event, error) {
	return s.end(c.Number, outcomeCredentials, false, CredentialsMissing(c))
}

func (c NeedJavaScript) decide(s State) ([]Event, error) {
	return s.end(c.Number, outcomeJavaScript, false, JavaScriptNeeded(c))
}

// end records the end of a requested walk, and that of a routine walk if it has news.
func (s State) end(number int, outcome string, news bool, event Event) ([]Event, error) {
	switch {
	case s.Status == StatusNone:
		return nil, ErrUnknown
	case number < s.Started:
		return nil, ErrNumber
	case s.Status == StatusCollecting, number > s.Started && (news || outcome != s.Outcome):
		return []Event{event}, nil
	}
	return nil, nil // it has ended already, or nothing has changed
}
