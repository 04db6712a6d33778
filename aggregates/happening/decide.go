package happening

import (
	"cmp"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Command is an intention; times arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Observe records how a source shows the happening. The same details again change nothing. A sighting of another
	// happening is accepted only if that is merged into this one.
	Observe struct {
		SourceID    uuid.UUID
		Key         string
		Keys        []string
		Details     Details
		PublishedAt *time.Time
		Source      Block
		At          time.Time
		Standing    Standing
		Origins     []Origin // a change of these alone records nothing
		Of          uuid.UUID
		Version     int // likewise
	}
	// ObserveUnlessRetired is Observe of a happening that is not over since before a time; one that is counts as retired.
	ObserveUnlessRetired struct {
		Observe

		Before time.Time // Optional.
	}
	// MarkStale records that the source no longer shows the happening.
	MarkStale struct {
		SourceID uuid.UUID
		At       time.Time
		Of       uuid.UUID
	}
)

func (c Observe) decide(s State) ([]Event, error) {
	if c.Of != uuid.Nil && !s.holds(c.Of) {
		return nil, ErrNotMerged
	}
	sighting, known := s.Sightings[SightingKey{Source: c.SourceID, Of: c.Of}]
	if known {
		c.Details = c.Details.KeepIDs(sighting.Details, c.At).keepMoves(sighting.Details, c.Version, sighting.Version)
	}
	switch {
	case !known || sighting.Stale:
		return s.changed(Observed(c), c.SourceID, c.At, true), nil
	case !c.Details.Equal(sighting.Details) || !c.Source.Equal(sighting.Source) || c.Standing != sighting.Standing:
		return s.changed(Revised{
			SourceID: c.SourceID,
			Details:  c.Details,
			Source:   c.Source,
			At:       c.At,
			Standing: c.Standing,
			Origins:  c.Origins,
			Of:       c.Of,
			Version:  c.Version,
		}, c.SourceID, c.At, false), nil
	}
	return nil, nil
}

// ErrRetired is returned for a happening that is over for longer than happenings are kept. It may be removed already.
var ErrRetired = errors.New("the happening is over for longer than happenings are kept (CARILLON_RETAIN_HAPPENINGS)")

func (c ObserveUnlessRetired) decide(s State) ([]Event, error) {
	if s.Over(c.Before) {
		return nil, ErrRetired
	}
	return c.Observe.decide(s)
}

func (c MarkStale) decide(s State) ([]Event, error) {
	if sighting, known := s.Sightings[SightingKey{Source: c.SourceID, Of: c.Of}]; !known || sighting.Stale {
		return nil, nil
	}
	return s.changed(WentStale(c), c.SourceID, c.At, true), nil
}

// changed returns an event with the changes of occurrences that follow from it. If the change comes from another
// sighting taking precedence, rather than from new details, a start that differs as doors and beginning do is not a
// move.
func (s State) changed(event Event, source uuid.UUID, at time.Time, others bool) []Event {
	events := []Event{event}
	if len(s.Sightings) == 0 || s.Into != uuid.Nil { // a merged happening leaves changes to the one that stays
		return events
	}
	before, after := s.Combine(), event.evolve(s).Combine()
	for _, change := range changes(before.Details, after.Details, at) {
		if p := change.PreviousStart; others && p != nil && change.Start.Sub(*p).Abs() <= nearStart {
			if change.PreviousStart = nil; change.PreviousStatus == "" {
				continue
			}
		}
		change.SourceID = source
		events = append(events, change)
	}
	return events
}

// changes returns the differences of occurrences that are not over.
func changes(before, after Details, at time.Time) []OccurrenceChanged {
	was := map[uuid.UUID]Occurrence{}
	for _, instance := range before.Instances {
		for _, o := range instance.Occurrences {
			was[o.ID] = o
		}
	}
	var all []OccurrenceChanged
	for _, instance := range after.Instances {
		for _, o := range instance.Occurrences {
			old, ok := was[o.ID]
			if !ok || o.over(at) {
				continue
			}
			moved := o.movedFrom(old)
			status, oldStatus := cmp.Or(o.Status, Scheduled), cmp.Or(old.Status, Scheduled)
			if !moved && status == oldStatus {
				continue
			}
			change := OccurrenceChanged{
				InstanceID:   instance.ID,
				OccurrenceID: o.ID,
				Title:        after.Title,
				Start:        o.Start,
				End:          o.End,
				Status:       status,
				At:           at,
			}
			if moved {
				start := old.Start
				change.PreviousStart = &start
			}
			if status != oldStatus {
				change.PreviousStatus = oldStatus
			}
			all = append(all, change)
		}
	}
	return all
}

// over reports whether the occurrence has ended or, without an end, begun.
func (c Occurrence) over(at time.Time) bool {
	if c.End != nil {
		return !c.End.After(at)
	}
	return !c.Start.After(at)
}

// oneDate reports whether one of two is a whole day and the other lies on it.
func oneDate(a, b Occurrence) bool {
	as := func(o Occurrence) Instance { return Instance{Occurrences: []Occurrence{o}} }
	return oneDay(&mergedInstance{Instance: as(a)}, as(b))
}
