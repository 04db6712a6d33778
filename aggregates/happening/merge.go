package happening

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// What can't be merged or split.
var (
	// ErrApart: somebody has said that they are two.
	ErrApart = errors.New("these happenings were split, and are not merged again")
	// ErrMergedElsewhere: it was merged into another one before.
	ErrMergedElsewhere = errors.New("the happening is merged into another one")
	// ErrNotMerged: there is nothing to split.
	ErrNotMerged = errors.New("the happening is not merged with that one")
)

type (
	// Merge says that another happening is this one: with From, that this one stays; with Into, that the other one does.
	// Merging what is merged changes nothing.
	Merge struct {
		From    uuid.UUID
		Members []uuid.UUID
		Into    uuid.UUID
		Reason  string
		Score   float64
		At      time.Time
	}
	// Separate undoes it. Separating what was separated changes nothing.
	Separate struct {
		From uuid.UUID
		Into uuid.UUID
		At   time.Time
	}
)

func (c Merge) decide(s State) ([]Event, error) {
	other := c.From
	if other == uuid.Nil {
		other = c.Into
	}
	_, held := s.Holds[c.From]
	switch {
	case held || c.Into != uuid.Nil && s.Into == c.Into:
		return nil, nil
	case s.Apart[other]:
		return nil, ErrApart
	case s.Into != uuid.Nil:
		return nil, ErrMergedElsewhere
	}
	return []Event{Merged(c)}, nil
}

func (c Separate) decide(s State) ([]Event, error) {
	if c.Into != uuid.Nil {
		switch {
		case s.Into == c.Into:
			return []Event{Split{Into: c.Into, At: c.At}}, nil
		case s.Apart[c.Into]:
			return nil, nil
		}
		return nil, ErrNotMerged
	}
	if _, held := s.Holds[c.From]; !held {
		if s.Apart[c.From] {
			return nil, nil
		}
		return nil, ErrNotMerged
	}
	tells := map[uuid.UUID]bool{}
	for teller := range s.Tellings {
		tells[teller.Source] = true
	}
	for teller := range s.without(c.From) {
		delete(tells, teller.Source)
	}
	gone := slices.SortedFunc(maps.Keys(tells), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return []Event{Split{From: c.From, Members: s.Holds[c.From], Sources: gone, At: c.At}}, nil
}

// Since is when the happening was first told of.
func (s State) Since() time.Time {
	var first time.Time
	for _, t := range s.Tellings {
		if first.IsZero() || t.Since.Before(first) {
			first = t.Since
		}
	}
	return first
}

// Keys is the strong evidence of all who tell of it.
func (s State) Keys() []string {
	var all []string
	for _, t := range s.Tellings {
		all = append(all, t.Keys...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
