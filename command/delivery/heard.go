package delivery

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// What was heard of a destination counts for heardFor at least, or until it was heard of so many others.
const (
	heardFor  = 30 * time.Second
	heardMost = 10_000
)

// heard is what happened to destinations lately. A claim is under way for a while, it goes by a read model that comes later
// than the events, and the dispatcher has room reserved before it records: so what comes may know a destination as it was
// before something that was heard already.
type heard struct {
	recent, before map[uuid.UUID]*changes
	turned         time.Time // when recent began
}

// changes are those of one destination, and what they last made of a target.
type changes struct {
	all      []change
	from, to *destination.Target
}

// change makes another target of one; nil: the destination was deleted.
type change func(*destination.Target) *destination.Target

// note takes in what happened to a destination.
func (h *heard) note(id uuid.UUID, c change, now time.Time) {
	if now.Sub(h.turned) > heardFor || len(h.recent) >= heardMost {
		h.before, h.recent, h.turned = h.recent, map[uuid.UUID]*changes{}, now
	}
	known := h.recent[id]
	if known == nil {
		known = &changes{}
		h.recent[id] = known
	}
	known.all, known.from = append(known.all, c), nil
}

// now is a target after all that was heard of it; nil where it was deleted.
func (h *heard) now(t *destination.Target) *destination.Target {
	for _, known := range [...]*changes{h.before[t.ID], h.recent[t.ID]} {
		if known == nil {
			continue
		}
		if t = known.after(t); t == nil {
			return nil
		}
	}
	return t
}

// after remembers what came of it: deliveries that are claimed together share their target, and go on to do so.
func (c *changes) after(t *destination.Target) *destination.Target {
	if c.from == t {
		return c.to
	}
	c.from, c.to = t, t
	for _, change := range c.all {
		if change == nil {
			c.to = nil
			break
		}
		c.to = change(c.to)
	}
	return c.to
}
