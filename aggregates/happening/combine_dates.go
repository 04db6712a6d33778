package happening

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// nearStart is how far apart two who mean the same instance may name its start: doors, or the first act.
	nearStart = 30 * time.Minute
	// sameDay is how close two starts are that could be one instance told differently.
	sameDay = 12 * time.Hour
)

// united is an instance as those who tell of it tell it together.
type united struct {
	Instance

	by     int    // who gave its dates
	told   []told // by whom it is told at this start, in the order in which they are heard
	others []int  // by whom it is told at another start
}

// told is a telling's instance.
type told struct {
	Instance

	by int
}

// dates unites instances.
//
//   - Instances are the same that have one id or start together: at one time, within half an hour of each other, or on
//     one day where one of them names no time. A time is better than a mere day, whoever names it.
//   - What is held once is held at the time that is heard first. Somebody who names another one tells the same instance.
//     Two pages of one source and one standing are no such contradiction: each may show one date of several.
//   - Of what is held several times, everybody may add instances; but not one that starts within twelve hours of one that
//     was heard of before and that he does not tell himself.
//   - An end, and days, that are missing are completed by those who name the same start.
//   - "Cancelled", "postponed" and "rescheduled" are statements, "scheduled" is none. The first statement that is heard
//     counts, also of those that show it no longer, unless one who stands higher came to show it as scheduled after it.
//   - Ids of instances are those of the one who told of the happening first.
func (c *combiner) dates() {
	dated := func(i, j int) int {
		a, b := &c.tellings[i], &c.tellings[j]
		return cmp.Or(
			cmp.Compare(b.Standing.rank(), a.Standing.rank()), b.DatedAt.Compare(a.DatedAt), a.Since.Compare(b.Since),
			a.compare(b))
	}
	order := slices.SortedFunc(slices.Values(c.live), dated)
	order = slices.DeleteFunc(order, func(i int) bool { return len(c.details(i).Instances) == 0 })
	var all []*united
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
		slices.SortStableFunc(u.told, func(a, b told) int { return dated(a.by, b.by) })
		c.finish(u)
	}
	slices.SortStableFunc(all, func(a, b *united) int {
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

// unite adds what a telling says to what was heard before. Once says that all of that is held once.
func (c *combiner) unite(all []*united, once bool, i int) ([]*united, bool) {
	t := &c.tellings[i]
	mine, rest := c.match(all, i)
	heldOnce := len(t.Details.Instances) == 1 && t.Details.Time.TemporalPattern != Recurring
	for _, instance := range rest {
		if len(instance.Occurrences) == 0 {
			continue
		}
		if !slices.ContainsFunc(all, func(u *united) bool { return c.instead(u, i, instance, once && heldOnce, mine) }) {
			u := &united{Instance: instance, by: i, told: []told{{Instance: instance, by: i}}}
			all, mine[u] = append(all, u), true
		}
	}
	return all, once && heldOnce && len(all) <= 1
}

// past says that a telling counts only as one that was on show.
func (c *combiner) past(i int) bool { return c.tellings[i].Stale && !c.tellings[c.live[0]].Stale }

// instead says that somebody who is heard later names an instance in the place of one that was heard of before.
func (c *combiner) instead(u *united, i int, instance Instance, once bool, mine map[*united]bool) bool {
	t, before := &c.tellings[i], &c.tellings[u.by]
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

// match finds which of the instances of a telling were heard of before. It gives those of before, and the instances
// that are left.
func (c *combiner) match(all []*united, by int) (mine map[*united]bool, rest []Instance) {
	mine = map[*united]bool{}
	byStart := make(map[int64]*united, len(all))
	byID := make(map[uuid.UUID]*united, len(all))
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
		u.told = append(u.told, told{Instance: instance, by: by})
	}
	// Those that start at the same time are found by now; what is left may be told with less care.
	for _, close := range []func(*united, Instance) bool{oneDay, near} {
		rest = slices.DeleteFunc(rest, func(instance Instance) bool {
			for _, u := range all {
				if !close(u, instance) || mine[u] && !instance.allDay() {
					continue
				}
				mine[u] = true
				u.told = append(u.told, told{Instance: instance, by: by})
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

// oneDay says that one of two names no time, and the other is on its day.
func oneDay(u *united, i Instance) bool {
	a, b := u.Instance, i
	switch {
	case a.allDay() && b.allDay(): // midnights of zones that differ
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

// near says that both name times that are nearly the same.
func near(u *united, i Instance) bool {
	return !u.allDay() && !i.allDay() && u.start().Sub(i.start()).Abs() <= nearStart
}

// nameTime takes the time of an instance of which only the day was known.
func (u *united) nameTime(i Instance, by int) {
	if u.allDay() && !i.allDay() && len(i.Occurrences) >= len(u.Occurrences) {
		u.Occurrences, u.by = i.Occurrences, by
	}
}

// finish completes an instance, and decides about its id and its statuses.
func (c *combiner) finish(u *united) {
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

// completeEnd takes the end, and the further days, from the first who names the same start and knows them.
func (c *combiner) completeEnd(u *united) {
	if len(u.Occurrences) > 1 || u.Occurrences[0].AllDay {
		return
	}
	if u.Occurrences[0].End != nil {
		c.gave(FieldEnd, u.by)
		return
	}
	for _, t := range u.told {
		if first := t.Occurrences[0]; first.End != nil && !first.AllDay && first.Start.Equal(u.start()) && !c.past(t.by) {
			u.Occurrences = slices.Clone(t.Occurrences)
			c.gave(FieldEnd, t.by)
			return
		}
	}
}

// keepID gives the instance the id that the first teller of the happening gave it.
func (c *combiner) keepID(u *united) {
	first, id := u.told[0].by, u.told[0].ID
	earlier := func(by int, other uuid.UUID) {
		a, b := &c.tellings[by], &c.tellings[first]
		if cmp.Or(a.Since.Compare(b.Since), a.compare(b)) < 0 {
			first, id = by, other
		}
	}
	for _, t := range u.told {
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

// status decides among those who tell an instance at its start. It gives back who said it.
func (c *combiner) status(u *united, own Status, of func(Instance) Status) (status Status, from int) {
	for _, statement := range u.told {
		said := of(statement.Instance)
		if !said.statement() {
			continue
		}
		overruled := slices.ContainsFunc(u.told, func(other told) bool {
			a, b := &c.tellings[other.by], &c.tellings[statement.by]
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

// statement says that a status is more than what everybody shows who knows of nothing.
func (s Status) statement() bool { return s != "" && s != Scheduled }

// time describes the dates. Its words are those of somebody who tells the same instances, as far as there is one.
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
