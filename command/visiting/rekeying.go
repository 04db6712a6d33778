package visiting

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect/identity"
)

// rekey assigns to unknown tellings the happenings that the page no longer shows, if title and start are the
// same: some calendars change their identifiers at each export. Within one page that is enough, but of several with
// the same title and start those with the same place belong together. Unshown returns the happenings that only this
// page has shown, except kept.
func (x *identification) rekey(unshown func(kept []uuid.UUID) ([]Shown, error)) error {
	var fresh []*Telling
	kept := map[uuid.UUID]bool{}
	for i := range x.tellings {
		t := &x.tellings[i]
		switch k := x.find(t); {
		case k != nil:
			kept[k.Happening] = true
		case x.byID[t.Happening] == nil:
			fresh = append(fresh, t)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	for id := range x.taken {
		kept[id] = true
	}
	ids := make([]uuid.UUID, 0, len(kept))
	for id := range kept {
		ids = append(ids, id)
	}
	gone, err := unshown(ids)
	if err != nil || len(gone) == 0 {
		return err
	}
	left, err := x.programmed(gone)
	if err != nil {
		return err
	}
	for _, alike := range []func(a, b *programmed, sole bool) bool{atOnePlace, notElsewhere} {
		fresh = slices.DeleteFunc(fresh, func(t *Telling) bool {
			p := programmedAs(t.Observation.Details, x.now)
			olds := left[p.what]
			i := slices.IndexFunc(olds, func(old programmed) bool { return alike(&old, &p, len(olds) == 1) })
			if i < 0 {
				return false
			}
			x.replace(t, olds[i].shown)
			left[p.what] = slices.Delete(olds, i, i+1)
			return true
		})
	}
	return nil
}

// programmed is an entry of a programme.
type programmed struct {
	what  programme
	place string
	shown *Shown
}

// programme is the title and the next start of a happening.
type programme struct {
	title  string
	start  time.Time
	allDay bool
	series bool
}

func programmedAs(d happening.Details, now time.Time) programmed {
	p := programmed{what: programme{title: identity.Title(d.Title), series: len(d.Instances) > 1}}
	for _, instance := range d.Instances {
		if len(instance.Occurrences) == 0 {
			continue
		}
		first := instance.Occurrences[0]
		p.what.start, p.what.allDay = first.Start.UTC(), first.AllDay
		if !first.Start.Before(now) {
			break
		}
	}
	if d.Location != nil {
		p.place = identity.Words(d.Location.DisplayAddress)
	}
	return p
}

// atOnePlace reports whether two entries have the same place, or none.
func atOnePlace(a, b *programmed, _ bool) bool { return a.place == b.place }

// notElsewhere reports whether two entries may have the same place: one has none, or both are the only ones of their
// title and start. Another page may still show a happening that is known from events alone.
func notElsewhere(a, b *programmed, sole bool) bool {
	within := strings.Contains(a.place, b.place) || strings.Contains(b.place, a.place) // also if one is empty
	return len(a.shown.Dates) > 0 && (sole || within)
}

// loadBatch is the number of happenings whose details are read at a time.
const loadBatch = 256

// programmed returns happenings by title and start.
func (x *identification) programmed(all []Shown) (map[programme][]programmed, error) {
	found := map[programme][]programmed{}
	for some := range slices.Chunk(all, loadBatch) {
		ids := make([]uuid.UUID, len(some))
		for i := range some {
			ids[i] = some[i].Happening
		}
		told, err := x.ask(ids)
		if err != nil {
			return nil, err
		}
		for i := range some {
			for _, d := range told[some[i].Happening] {
				p := programmedAs(d, x.now)
				p.shown = &some[i]
				if p.what.title != "" && !p.what.start.IsZero() {
					found[p.what] = append(found[p.what], p)
					break
				}
			}
		}
	}
	return found, nil
}

// replace assigns to a telling a happening that the page showed by other evidence before.
func (x *identification) replace(t *Telling, old *Shown) {
	t.assignID(old.Happening, old.Key)
	x.byID[old.Happening] = old
	t.Rekeyed = true
	x.taken[old.Happening] = true
}
