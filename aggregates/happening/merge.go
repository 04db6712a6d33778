package happening

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Errors of merging and splitting.
var (
	// ErrApart is returned for happenings that were split.
	ErrApart = errors.New("these happenings were split, and are not merged again")
	// ErrMergedElsewhere is returned if the happening is merged into another one.
	ErrMergedElsewhere = errors.New("the happening is merged into another one")
	// ErrNotMerged is returned if the happening is not merged with the given one.
	ErrNotMerged = errors.New("the happening is not merged with that one")
)

type (
	// Merge merges another happening with this one: with From, this one stays; with Into, the other one does. Repeating
	// it changes nothing.
	Merge struct {
		From    uuid.UUID
		Members []uuid.UUID
		Into    uuid.UUID
		Reason  string
		Score   float64
		At      time.Time
	}
	// Separate reverts a merge. From is a happening that was merged into this one, or a member of one; then Members are
	// its own members. Repeating it changes nothing.
	Separate struct {
		From    uuid.UUID
		Members []uuid.UUID
		Into    uuid.UUID
		At      time.Time
	}
)

func (c Merge) decide(s State) ([]Event, error) {
	other := c.From
	if other == uuid.Nil {
		other = c.Into
	}
	members, held := s.Holds[c.From]
	more := slices.ContainsFunc(c.Members, func(id uuid.UUID) bool { return !slices.Contains(members, id) })
	switch {
	case held && !more || c.Into != uuid.Nil && s.Into == c.Into:
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
	switch {
	case !s.holds(c.From) && s.Apart[c.From]:
		return nil, nil
	case !s.holds(c.From):
		return nil, ErrNotMerged
	}
	members := c.Members
	if more, held := s.Holds[c.From]; held {
		members = more
	}
	sources := map[uuid.UUID]bool{}
	for from := range s.Sightings {
		sources[from.Source] = true
	}
	for from := range s.without(c.From, members) {
		delete(sources, from.Source)
	}
	gone := slices.SortedFunc(maps.Keys(sources), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	return []Event{Split{
		From:    c.From,
		Members: members,
		Sources: gone,
		At:      c.At,
	}}, nil
}

// holds reports whether another happening was merged into this one, directly or as a member.
func (s State) holds(other uuid.UUID) bool {
	if _, held := s.Holds[other]; held {
		return true
	}
	for _, members := range s.Holds {
		if slices.Contains(members, other) {
			return true
		}
	}
	return false
}

// Group returns the happening itself and all that were merged into it.
func (s State) Group(id uuid.UUID) []uuid.UUID {
	all := []uuid.UUID{id}
	for held, members := range s.Holds {
		all = append(append(all, held), members...)
	}
	return all
}

// Since returns when the happening was first observed.
func (s State) Since() time.Time {
	var first time.Time
	for _, t := range s.Sightings {
		if first.IsZero() || t.Since.Before(first) {
			first = t.Since
		}
	}
	return first
}

// Keys returns the strong evidence of all sightings.
func (s State) Keys() []string {
	var all []string
	for _, t := range s.Sightings {
		all = append(all, t.Keys...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
