package calendar

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect/extract/candidate"
)

// override is an instance that differs from the rule.
type override struct {
	event *event
	// id is the original start on the clock of the master's zone.
	id time.Time
	instance
}

type overrides struct {
	all []*override
	one map[time.Time]*override
	// ranges are changes for all instances from one on, in order.
	ranges []*override
}

// forget removes changes to instances that a later version of the master lacks.
func (o *overrides) forget(master *event, starts []instance) {
	o.all = slices.DeleteFunc(o.all, func(v *override) bool {
		if sequence(v.event) >= sequence(master) {
			return false
		}
		_, there := slices.BinarySearchFunc(starts, v.id, func(in instance, id time.Time) int {
			return in.start.wall.Compare(id)
		})
		return !there
	})
}

// rangeAt returns the change for all instances from one on that includes an instance.
func (o overrides) rangeAt(wall time.Time) *override {
	var found *override
	for _, r := range o.ranges {
		if r.id.After(wall) {
			break
		}
		found = r
	}
	return found
}

// overrides reads the changes of single instances.
func (f *file) overrides(s *series) overrides {
	if len(s.overrides) == 0 {
		return overrides{}
	}
	o := overrides{one: map[time.Time]*override{}}
	for _, e := range s.overrides {
		if !f.budget.Work(50) {
			return o
		}
		l, _ := e.first("RECURRENCE-ID")
		id, ok := f.parseMoment(e.calendar, l, l.value, &s.zone)
		in, ok2 := f.instanceOf(e, &id, &s.zone)
		if !ok || !ok2 {
			continue
		}
		v := &override{event: e, id: s.clock(id), instance: in}
		if have := o.one[v.id]; have != nil && older(e, have.event) {
			continue
		}
		if strings.EqualFold(l.param("RANGE"), "THISANDFUTURE") {
			o.ranges = append(o.ranges, v)
		}
		o.one[v.id] = v
	}
	for _, v := range o.one {
		o.all = append(o.all, v)
	}
	byID := func(a, b *override) int { return a.id.Compare(b.id) }
	slices.SortFunc(o.all, byID)
	slices.SortStableFunc(o.ranges, byID)
	return o
}

// addOverrides adds the changed instances.
func (f *file) addOverrides(s *series, first instance, changed []*override, status happening.Status) {
	if s.alone {
		changed = f.overrides(s).all
	}
	for _, v := range changed {
		if !f.within(v.instance, true) || len(s.holdings) >= s.limit {
			continue
		}
		h := candidate.Holding{When: v.shown(s.zone), Status: cmp.Or(f.status(v.event), status)}
		original := moment{wall: v.id, hasTime: first.start.hasTime, zone: s.zone}.stamp(s.zone)
		h.Original = &original
		s.holdings = append(s.holdings, h)
	}
}
