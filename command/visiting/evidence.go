package visiting

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
	"carillon/command/collect/match"
)

// newTelling returns the telling of an observation, with the identity that it gives by itself.
func newTelling(o collect.Observation, dates []byte) Telling {
	t := Telling{
		Identity:    Identity{Happening: happening.DeriveID(o.Key), Key: o.Key},
		Observation: o,
		Dates:       dates,
		programme:   programmeOf(&o.Details),
	}
	for _, key := range slices.Concat([]string{o.Key}, o.Keys, []string{o.Alias}) {
		if key == "" {
			continue
		}
		e := happening.DeriveID(key)
		if slices.Contains(t.Evidence, e) {
			continue
		}
		t.Evidence = append(t.Evidence, e)
		rest, isID := strings.CutPrefix(key, "id:")
		if identity.IsURL(key) || isID && slices.Contains(o.Keys, "url:"+rest) {
			t.addresses = append(t.addresses, e)
		}
	}
	if t.programme != uuid.Nil {
		t.Evidence = append(t.Evidence, t.programme)
	}
	return t
}

// programmeOf returns evidence of the title and the day of a happening, by which it is looked for on other pages. A
// series has only its title, because pages show different parts of it.
func programmeOf(d *happening.Details) uuid.UUID {
	title := identity.Title(d.Title)
	if title == "" || len(d.Instances) == 0 || len(d.Instances[0].Occurrences) == 0 {
		return uuid.Nil
	}
	day := "series"
	if len(d.Instances) == 1 {
		first, zone := d.Instances[0].Occurrences[0], time.UTC
		if own := timing.LoadZone(d.Time.Timezone); first.AllDay && own != nil {
			zone = own
		}
		day = first.Start.In(zone).Format(time.DateOnly)
	}
	return happening.DeriveID("programme:" + title + "|" + day)
}

// evidence returns the evidence by which the happenings of the tellings are looked for.
func (x *identification) evidence() (all []uuid.UUID) {
	for i := range x.tellings {
		all = append(all, x.tellings[i].Evidence...)
	}
	return all
}

// bond returns what a telling and a known happening share, except title and day.
func (t *Telling) bond(k *Shown) match.Bond {
	bond := match.Nothing
	if k.Happening == t.Happening {
		bond = match.Address
	}
	for _, e := range k.Evidence {
		switch {
		case slices.Contains(t.addresses, e):
			bond = max(bond, match.Address)
		case e != t.programme && slices.Contains(t.Evidence, e):
			return match.Identifier
		}
	}
	return bond
}

// pair assigns to tellings without known evidence the happenings with their title and day: of other pages, and those
// that the page showed before, as some calendars change their identifiers at each export. Of several with the same
// title and start those with the same place belong together. It returns the tellings that are left.
func (x *identification) pair(fresh []*Telling) ([]*Telling, error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	if err := x.learnRestored(); err != nil {
		return nil, err
	}
	var ids []uuid.UUID
	for _, t := range fresh {
		for _, k := range x.alike(t) {
			ids = append(ids, k.Happening)
		}
	}
	if err := x.look(ids); err != nil {
		return nil, err
	}
	for _, least := range []float64{1, 0.5, 0} { // likeness of places
		fresh = slices.DeleteFunc(fresh, func(t *Telling) bool {
			all := x.alike(t)
			i := slices.IndexFunc(all, func(k *Shown) bool { return x.pairs(t, k, least, len(all) == 1) })
			if i < 0 {
				return false
			}
			t.Rekeyed = all[i].Here && len(all[i].Dates) > 0
			x.assign(t, all[i])
			return true
		})
	}
	return fresh, nil
}

// alike returns the known happenings of the title and the day of a telling that no telling of the page has.
func (x *identification) alike(t *Telling) []*Shown {
	all := x.byEvidence[t.programme]
	if t.programme == uuid.Nil {
		return nil
	}
	var free []*Shown
	for _, k := range all {
		if !x.taken[k.Happening] && (!k.Here || !x.partial) && len(free) < maxAlike {
			free = append(free, k)
		}
	}
	return free
}

// pairs reports whether a telling is of a happening of its title and day. Another page may still show one that is
// known from events alone.
func (x *identification) pairs(t *Telling, k *Shown, least float64, sole bool) bool {
	if x.follows(t, k.Happening) {
		return false
	}
	if !k.Here {
		return x.same(t, k, match.OtherPage)
	}
	likeness := x.likeness(t, k, match.Replaced)
	return likeness >= least && (likeness > 0 || sole) && (likeness == 1 || len(k.Dates) > 0)
}

// learnRestored learns the happenings that are known from the events alone, by their titles and days.
func (x *identification) learnRestored() error {
	if x.restored == nil {
		return nil
	}
	all, err := x.restored()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(k Shown) bool { return x.byID[k.Happening] != nil })
	ids := make([]uuid.UUID, len(all))
	for i := range all {
		ids[i] = all[i].Happening
	}
	if err := x.look(ids); err != nil {
		return err
	}
	for i := range all {
		if what := x.programmes[all[i].Happening]; what != uuid.Nil {
			all[i].Evidence = append(all[i].Evidence, what)
		}
	}
	x.learn(all)
	return nil
}

// assignID assigns a happening to a telling. If another address had given it, its instances get other ids.
func (t *Telling) assignID(id uuid.UUID, key string) {
	t.Happening = id
	if key != "" {
		t.Key = key
	}
	if !slices.Contains(t.Evidence, id) {
		t.Evidence = append(t.Evidence, id)
	}
	if t.Key == t.Observation.Key || !strings.HasPrefix(t.Key, t.Observation.Key+" (") {
		return
	}
	d := &t.Observation.Details
	d.Instances = slices.Clone(d.Instances)
	for i := range d.Instances {
		instance := &d.Instances[i]
		instance.ID = happening.DeriveInstanceID(t.Key, instance.ID.String())
		instance.Occurrences = slices.Clone(instance.Occurrences)
		for n := range instance.Occurrences {
			instance.Occurrences[n].ID = happening.DeriveOccurrenceID(instance.ID, n)
		}
	}
}
