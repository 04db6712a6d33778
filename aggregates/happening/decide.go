package happening

import (
	"time"

	"github.com/google/uuid"
)

// Command is an intention; times arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Observe says what a source shows now. What it showed before changes nothing.
	Observe struct {
		SourceID    uuid.UUID
		Key         string
		Keys        []string
		Details     Details
		PublishedAt *time.Time
		Source      Block
		At          time.Time
	}
	// MarkStale says that the source shows the happening no longer.
	MarkStale struct {
		SourceID uuid.UUID
		At       time.Time
	}
)

func (c Observe) decide(s State) ([]Event, error) {
	shown, known := s.Shown[c.SourceID]
	if known {
		c.Details = c.Details.KeepIDs(shown.Details, c.At)
	}
	switch {
	case !known || shown.Stale:
		return []Event{Observed(c)}, nil
	case !c.Details.Equal(shown.Details) || !c.Source.Equal(shown.Source):
		return []Event{Revised{SourceID: c.SourceID, Details: c.Details, Source: c.Source, At: c.At}}, nil
	}
	return nil, nil
}

func (c MarkStale) decide(s State) ([]Event, error) {
	if shown, known := s.Shown[c.SourceID]; !known || shown.Stale {
		return nil, nil
	}
	return []Event{WentStale(c)}, nil
}
