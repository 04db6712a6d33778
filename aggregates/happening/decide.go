package happening

import (
	"cmp"
	"time"

	"github.com/google/uuid"
)

// Command is an intention; times arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Observe says what a source shows now. What it showed before changes nothing. Of another happening nothing is told
	// that was not merged into this one, or was split off again.
	Observe struct {
		SourceID    uuid.UUID
		Key         string
		Keys        []string
		Details     Details
		PublishedAt *time.Time
		Source      Block
		At          time.Time
		Standing    Standing
		Origins     []Origin // a change of these alone changes nothing
		Of          uuid.UUID
		Version     int // as is one of this
	}
	// MarkStale says that the source shows the happening no longer.
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
	told, known := s.Tellings[Teller{Source: c.SourceID, Of: c.Of}]
	if known {
		c.Details = c.Details.KeepIDs(told.Details, c.At).keepMoves(told.Details, c.Version, told.Version)
	}
	switch {
	case !known || told.Stale:
		return s.changed(Observed(c), c.SourceID, c.At, true), nil
	case !c.Details.Equal(told.Details) || !c.Source.Equal(told.Source) || c.Standing != told.Standing:
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

func (c MarkStale) decide(s State) ([]Event, error) {
	if told, known := s.Tellings[Teller{Source: c.SourceID, Of: c.Of}]; !known || told.Stale {
		return nil, nil
	}
	return s.changed(WentStale(c), c.SourceID, c.At, true), nil
}

// changed is an event with the changes of occurrences that follow from it. Where somebody else is heard after it,
// rather than that anybody says something new, a start that differs as doors and beginning do is no move.
func (s State) changed(event Event, source uuid.UUID, at time.Time, others bool) []Event {
	events := []Event{event}
	if len(s.Tellings) == 0 || s.Into != uuid.Nil { // of what was merged, the one that stays tells
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

// changes says what has become of occurrences that are not over.
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

// over says that the occurrence has ended or, where no end is known, begun.
func (c Occurrence) over(at time.Time) bool {
	if c.End != nil {
		return !c.End.After(at)
	}
	return !c.Start.After(at)
}

// oneDate says of a time and a whole day that the one is on the other.
func oneDate(a, b Occurrence) bool {
	as := func(o Occurrence) Instance { return Instance{Occurrences: []Occurrence{o}} }
	return oneDay(&united{Instance: as(a)}, as(b))
}
