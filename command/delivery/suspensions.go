package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// suspensions are the organizations whose deliveries are not sent. They are known once they were read; until then
// nothing is sent at all.
type suspensions struct {
	mu    sync.Mutex
	known bool
	all   map[uuid.UUID]struct{}
}

func (s *suspensions) set(all []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known, s.all = true, map[uuid.UUID]struct{}{}
	for _, id := range all {
		s.all[id] = struct{}{}
	}
}

// ready reports whether they are known.
func (s *suspensions) ready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

func (s *suspensions) has(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.all[id]
	return is || !s.known
}

func (s *suspensions) list() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]uuid.UUID, 0, len(s.all))
	for id := range s.all {
		list = append(list, id)
	}
	return list
}

// change notes a suspension or its end.
func (s *suspensions) change(id uuid.UUID, suspended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, id)
	if suspended {
		s.all[id] = struct{}{}
	}
}

// readSuspensions reads the suspended organizations, and retries until it succeeds.
func (d *Deliverer) readSuspensions(ctx context.Context) {
	if d.Suspended == nil {
		d.suspended.set(nil)
		return
	}
	for ctx.Err() == nil {
		all, err := d.Suspended(ctx)
		if err == nil {
			d.suspended.set(all)
			d.Wake()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(idlePoll):
		}
	}
}

// afterSuspension returns an organization's waiting deliveries to the queue, or drops them.
func (d *Deliverer) afterSuspension(recorded *eventstore.Recorded) {
	event, err := organization.Events.Decode(recorded)
	if err != nil {
		d.Log.Error("deliverer can't read an organization event", "error", err)
		return // as for destinations
	}
	id := recorded.StreamID()
	switch event.(type) {
	case organization.Suspended, organization.Deleted: // its objects are deleted soon after it
		d.suspended.change(id, true)
		d.dropOrganization(id)
	case organization.Resumed:
		d.suspended.change(id, false)
		d.Wake()
	// Nothing to it.
	case organization.Registered, organization.KeyIssued, organization.KeyRotated, organization.KeyRevoked,
		organization.LimitsSet:
	}
}

func (d *Deliverer) dropOrganization(id uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.putBack(d.schedule.DropOrganization(id, time.Now()))
}
