package copying

import (
	"context"
	"errors"
	"fmt"
	"math"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// begun is how far the target is when a run begins.
type begun struct {
	// after is the position in the source up to which the target has everything.
	after eventstore.Position
	// fresh: the target has nothing of any user.
	fresh bool
	// copied are the last revisions of streams of which the target has events that came after that position, and which
	// the source doesn't show any more.
	copied map[string]eventstore.Revision
}

// resume finds the position in the source after which the target has nothing: that of the target's last event that the
// source still shows.
func (c *copier) resume(ctx context.Context) (begun, error) {
	there := begun{fresh: true, copied: map[string]eventstore.Revision{}}
	for entry, err := range c.target.Backwards(ctx, eventstore.Start) {
		if err != nil {
			return there, fmt.Errorf("target: %w", err)
		}
		if _, described := describes(&entry); described || entry.Type == eventstore.Filler {
			there.fresh = false
		}
		if system(&entry) || entry.Type == eventstore.Filler {
			continue
		}
		c.result.Resumed, there.fresh = true, false
		at, known, err := c.find(ctx, &entry)
		switch {
		case err != nil:
			return there, err
		case known == same:
			there.after = at
			return there, nil
		case known == foreign:
			return there, fmt.Errorf("%w: event %d of stream %s", ErrForeign, entry.Revision, entry.Stream)
		}
		last := entry.Revision
		if entry.Type == tombstoneType {
			last = ended
		}
		if _, later := there.copied[entry.Stream]; !later {
			there.copied[entry.Stream] = last
		}
	}
	return there, nil
}

// ended is the last revision of a stream that was tombstoned.
const ended eventstore.Revision = math.MaxInt64

// knowledge is the source's data about an event of the target.
type knowledge int

const (
	same    knowledge = iota // it has it
	gone                     // it may have had it: its stream was deleted or truncated
	foreign                  // it never had it
)

// find looks an event of the target up in the source.
func (c *copier) find(ctx context.Context, e *esdb.Entry) (at eventstore.Position, known knowledge, err error) {
	if first, trimmed := c.readable[e.Stream]; trimmed && e.Revision < first {
		return eventstore.Start, gone, nil
	}
	at, known, err = c.look(ctx, e)
	if err != nil {
		err = fmt.Errorf("source: %w", err)
	}
	return at, known, err
}

func (c *copier) look(ctx context.Context, e *esdb.Entry) (eventstore.Position, knowledge, error) {
	for recorded, err := range c.source.Read(ctx, e.Stream, e.Revision) {
		switch {
		case errors.Is(err, eventstore.ErrStreamDeleted):
			c.readable[e.Stream] = ended
			return eventstore.Start, gone, nil
		case err != nil:
			return eventstore.Start, foreign, err
		case recorded.Revision != e.Revision:
			c.readable[e.Stream] = recorded.Revision
			return eventstore.Start, gone, nil
		case recorded.ID != e.ID:
			return eventstore.Start, foreign, nil
		}
		return recorded.Position, same, nil
	}
	_, described, err := c.source.Last(ctx, "$$"+e.Stream)
	if err != nil || !described { // by which it may have lost its events
		return eventstore.Start, foreign, err
	}
	last, left, err := c.source.Last(ctx, e.Stream)
	c.readable[e.Stream] = ended
	if left {
		c.readable[e.Stream] = last.Revision + 1
	}
	return eventstore.Start, gone, err
}
