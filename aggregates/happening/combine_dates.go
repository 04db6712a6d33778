package happening

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// nearStart is the maximum difference of two starts of the same instance, such as doors and first act.
	nearStart = 30 * time.Minute
	// sameDay is the maximum difference of two starts that may be one instance described differently.
	sameDay = 12 * time.Hour
)

// mergedInstance is an instance with the observations of all sightings.
type mergedInstance struct {
	Instance

	by           int           // the sighting that gave its dates
	observations []observation // at this start, in order of precedence
	others       []int         // sightings with another start
}

// observation is an instance of a sighting.
type observation struct {
	Instance

	by int
}

// dates merges instances.
//   - Instances are the same if they share an id or start together: at one time, within half an hour, or on one day if
//     one of them has no time. A time replaces a mere day, whatever the precedence.
//   - A happening that takes place once has the start of the first sighting. Another start in a later sighting is of
//     the same instance. Two pages of one source and standing do not conflict: each may show one date of several.
//   - A happening that takes place several times gets the instances of all sightings, except those that start within
//     twelve hours of an earlier one that the sighting does not have itself.
//   - Missing ends and days come from sightings with the same start.
//   - Cancelled, Postponed and Rescheduled are statements, Scheduled is none. The first statement counts, even of a
//     stale sighting, unless a sighting of higher standing has shown the instance as scheduled since.
//   - Ids of instances are those of the oldest sighting.
func (c *combiner) dates() {
	dated := func(i, j int) int {
		a, b := &c.sightings[i], &c.sightings[j]
		return cmp.Or(
			cmp.Compare(b.Standing.rank(), a.Standing.rank()), b.DatedAt.Compare(a.DatedAt), a.Since.Compare(b.Since),
			a.compare(b))
	}
	order := slices.SortedFunc(slices.Values(c.live), dated)
	order = slices.DeleteFunc(order, func(i int) bool { return len(c.details(i).Instances) == 0 })
	var all []*mergedInstance
	once := true
	for _, i := range order {
		all, once = c.unite(all, once, i)
	}
	for _, i := range slices.SortedFunc(slices.Values(c.all), dated) {
		if c.past(i) {
			c.match(all, i)
		}
	}
	for _, u := range all {
		slices.SortStableFunc(u.observations, func(a, b observation) int { return dated(a.by, b.by) })
		c.finish(u)
	}
	slices.SortStableFunc(all, func(a, b *mergedInstance) int {
		return cmp.Or(a.start().Compare(b.start()), bytes.Compare(a.ID[:], b.ID[:]))
	})
	occurrences := 0
	for n, u := range all {
		if occurrences += len(u.Occurrences); occurrences > maxCombined && n > 0 && len(order) > 1 {
			break
		}
		c.out.Details.Instances = append(c.out.Details.Instances, u.Instance)
	}
	c.time(order)
}

// unite merges the instances of a sighting into all. once reports whether all sightings so far show a single instance.
func (c *combiner) unite(all []*mergedInstance, once bool, i int) ([]*mergedInstance, bool) {
	t := &c.sightings[i]
	mine, rest := c.match(all, i)
	heldOnce := len(t.Details.Instances) == 1 && t.Details.Time.TemporalPattern != Recurring
	for _, instance := range rest {
		if len(instance.Occurrences) == 0 {
			continue
		}
		if !slices.ContainsFunc(all, func(u *mergedInstance) bool {
			return c.supersedes(u, i, instance, once && heldOnce, mine)
		}) {
			u := &mergedInstance{Instance: instance, by: i, observations: []observation{{Instance: instance, by: i}}}
			all, mine[u] = append(all, u), true
		}
	}
	return all, once && heldOnce && len(all) <= 1
}

// past reports whether a sighting is stale while others are visible.
func (c *combiner) past(i int) bool { return c.sightings[i].Stale && !c.sightings[c.live[0]].Stale }

// supersedes reports whether an instance of a later sighting stands for one of an earlier sighting.
func (c *combiner) supersedes(u *mergedInstance, i int, instance Instance, once bool,
	mine map[*mergedInstance]bool) bool {
	t, before := &c.sightings[i], &c.sightings[u.by]
	if mine[u] || t.SourceID == before.SourceID && t.Standing.rank() == before.Standing.rank() {
		return false
	}
	if !once && u.start().Sub(instance.start()).Abs() >= sameDay {
		return false
	}
	u.others = append(u.others, i)
	return true
}

func (i Instance) start() time.Time {
	if len(i.Occurrences) == 0 {
		return time.Time{}
	}
	return i.Occurrences[0].Start
}

func (i Instance) allDay() bool { return len(i.Occurrences) > 0 && i.Occurrences[0].AllDay }

// match finds the instances of a sighting among all. It returns the matches, and the remaining instances.
func (c *combiner) match(all []*mergedInstance, by int) (mine map[*mergedInstance]bool, rest []Instance) {
	mine = map[*mergedInstance]bool{}
	byStart := make(map[int64]*mergedInstance, len(all))
	byID := make(map[uuid.UUID]*mergedInstance, len(all))
	for _, u := range all {
		byID[u.ID] = u
		if !u.allDay() {
			byStart[u.start().UnixNano()] = u
		}
	}
	for _, instance := range c.details(by).Instances {
		u := byStart[instance.start().UnixNano()]
		if u == nil || instance.allDay() || mine[u] {
			rest = append(rest, instance)
			continue
		}
		mine[u] = true
		u.observations = append(u.observations, observation{Instance: instance, by: by})
	}
	// Equal starts have matched; the rest may be less precise.
	for _, close := range []func(*mergedInstance, Instance) bool{oneDay, near} {
		rest = slices.DeleteFunc(rest, func(instance Instance) bool {
			for _, u := range all {
				if !close(u, instance) || mine[u] && !instance.allDay() {
					continue
				}
				mine[u] = true
				u.observations = append(u.observations, observation{Instance: instance, by: by})
				if !c.past(by) {
					u.nameTime(instance, by)
				}
				return true
			}
			return false
		})
	}
	rest = slices.DeleteFunc(rest, func(instance Instance) bool {
		u := byID[instance.ID]
		if u == nil || mine[u] {
			return false
		}
		mine[u] = true
		u.others = append(u.others, by)
		return true
	})
	return mine, rest
}

// oneDay reports whether one of two instances has no time, and the other is on its day.
func oneDay(u *mergedInstance, i Instance) bool {
	a, b := u.Instance, i
	switch {
	case a.allDay() && b.allDay(): // midnights of different zones
		return a.start().Sub(b.start()).Abs() < sameDay
	case a.allDay():
	case b.allDay():
		a, b = b, a
	default:
		return false
	}
	end := a.start().Add(24 * time.Hour)
	if e := a.Occurrences[0].End; e != nil {
		end = *e
	}
	return !b.start().Before(a.start()) && b.start().Before(end)
}

// near reports whether the times of both are nearly equal.
func near(u *mergedInstance, i Instance) bool {
	return !u.allDay() && !i.allDay() && u.start().Sub(i.start()).Abs() <= nearStart
}

// nameTime takes the time of an instance of which only the day was known.
func (u *mergedInstance) nameTime(i Instance, by int) {
	if u.allDay() && !i.allDay() && len(i.Occurrences) >= len(u.Occurrences) {
		u.Occurrences, u.by = i.Occurrences, by
	}
}

// finish completes an instance, and decides its id and statuses.
func (c *combiner) finish(u *mergedInstance) {
	u.Occurrences = slices.Clone(u.Occurrences)
	c.gave(FieldStart, u.by)
	c.gave(FieldRecurrence, u.by)
	c.completeEnd(u)
	c.keepID(u)
	var from int
	u.Status, from = c.status(u, u.Status, func(i Instance) Status { return i.Status })
	c.gave(FieldStatus, from)
	for n := range u.Occurrences {
		o := &u.Occurrences[n]
		o.Status, from = c.status(u, o.Status, func(i Instance) Status {
			if len(i.Occurrences) == len(u.Occurrences) {
				return i.Occurrences[n].Status
			}
			return i.Status
		})
		c.gave(FieldStatus, from)
	}
}

// completeEnd takes the end and the further days from the first sighting with the same start that has them.
func (c *combiner) completeEnd(u *mergedInstance) {
	if len(u.Occurrences) > 1 || u.Occurrences[0].AllDay {
		return
	}
	if u.Occurrences[0].End != nil {
		c.gave(FieldEnd, u.by)
		return
	}
	for _, t := range u.observations {
		if first := t.Occurrences[0]; first.End != nil && !first.AllDay && first.Start.Equal(u.start()) && !c.past(t.by) {
			u.Occurrences = slices.Clone(t.Occurrences)
			c.gave(FieldEnd, t.by)
			return
		}
	}
}

// keepID takes the id of the instance from the oldest sighting of the happening.
func (c *combiner) keepID(u *mergedInstance) {
	first, id := u.observations[0].by, u.observations[0].ID
	earlier := func(by int, other uuid.UUID) {
		a, b := &c.sightings[by], &c.sightings[first]
		if cmp.Or(a.Since.Compare(b.Since), a.compare(b)) < 0 {
			first, id = by, other
		}
	}
	for _, t := range u.observations {
		earlier(t.by, t.ID)
	}
	for _, by := range u.others {
		for _, instance := range c.details(by).Instances {
			if instance.ID == u.ID || len(c.details(by).Instances) == 1 {
				earlier(by, instance.ID)
			}
		}
	}
	if id == u.ID {
		return
	}
	u.ID = id
	for n := range u.Occurrences {
		u.Occurrences[n].ID = DeriveOccurrenceID(id, n)
	}
}

// status decides between the sightings of an instance at its start. It returns the sighting that gave the status.
func (c *combiner) status(u *mergedInstance, own Status, of func(Instance) Status) (status Status, from int) {
	for _, statement := range u.observations {
		said := of(statement.Instance)
		if !said.statement() {
			continue
		}
		overruled := slices.ContainsFunc(u.observations, func(other observation) bool {
			a, b := &c.sightings[other.by], &c.sightings[statement.by]
			return !of(other.Instance).statement() && !a.Stale && a.Standing.rank() > b.Standing.rank() &&
				a.DatedAt.After(b.DatedAt)
		})
		if !overruled {
			return said, statement.by
		}
	}
	if own.statement() {
		own = Scheduled
	}
	return own, u.by
}

// statement reports whether a status is more than the default.
func (s Status) statement() bool { return s != "" && s != Scheduled }

// time describes the dates. Its words come from a sighting with the same instances, if there is one.
func (c *combiner) time(order []int) {
	if len(order) == 0 {
		order = c.live
	}
	d := &c.out.Details
	words, most := order[0], -1
	for _, i := range order {
		n := 0
		for _, instance := range c.details(i).Instances {
			if slices.ContainsFunc(d.Instances, func(o Instance) bool {
				return o.start().Equal(instance.start()) && o.allDay() == instance.allDay()
			}) {
				n++
			}
		}
		if n > most {
			words, most = i, n
		}
	}
	d.Time = c.details(words).Time
	if len(order) > 1 && len(d.Instances) > 1 || slices.ContainsFunc(order, func(i int) bool {
		return c.details(i).Time.TemporalPattern == Recurring
	}) {
		d.Time.TemporalPattern = Recurring
	}
	for _, i := range order {
		d.Time.Timezone = cmp.Or(d.Time.Timezone, c.details(i).Time.Timezone)
	}
	if d.Time.Timezone != "" {
		c.gave(FieldTimezone, words)
	}
}
