package delivery

import (
	"time"

	"github.com/google/uuid"
)

// A connection that is idle is kept for longer than this, and so are as many of them.
const (
	keptFor  = 30 * time.Second
	keptMost = 256
)

// connected remembers of which destinations a connection is idle: those that were added within keptFor, and some of those
// within twice that.
type connected struct {
	began         time.Time // recent
	recent, older map[uuid.UUID]struct{}
}

func (c *connected) add(destination uuid.UUID, now time.Time) {
	c.turn(now)
	if len(c.recent) >= keptMost {
		c.began, c.older, c.recent = now, c.recent, nil
	}
	if c.recent == nil {
		c.recent = map[uuid.UUID]struct{}{}
	}
	c.recent[destination] = struct{}{}
}

// forget drops one that hung up.
func (c *connected) forget(destination uuid.UUID) {
	delete(c.recent, destination)
	delete(c.older, destination)
}

func (c *connected) has(destination uuid.UUID, now time.Time) bool {
	c.turn(now)
	if _, ok := c.recent[destination]; ok {
		return true
	}
	_, ok := c.older[destination]
	return ok
}

// turn forgets what is too old.
func (c *connected) turn(now time.Time) {
	switch age := now.Sub(c.began); {
	case age > 2*keptFor:
		c.began, c.older, c.recent = now, nil, nil
	case age > keptFor:
		c.began, c.older, c.recent = now, c.recent, nil
	}
}
