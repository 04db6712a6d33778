package visiting

import (
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/command/collect/match"
)

// newSighting returns the sighting of an observation, with the identity that it gives by itself.
func newSighting(o collect.Observation, dates []byte) Sighting {
	t := Sighting{
		Identity:    Identity{Happening: happening.DeriveID(o.Key), Key: o.Key},
		Observation: o,
		Dates:       dates,
	}
	add := func(key string, bond match.Bond) {
		if e := happening.DeriveID(key); key != "" && !slices.Contains(t.Evidence, e) {
			t.Evidence, t.bonds = append(t.Evidence, e), append(t.bonds, bond)
		}
	}
	for _, key := range slices.Concat([]string{o.Key}, o.Keys, []string{o.Alias}) {
		rest, isID := strings.CutPrefix(key, "id:")
		if identity.IsURL(key) || isID && slices.Contains(o.Keys, "url:"+rest) {
			add(key, match.Address)
		} else {
			add(key, match.Identifier)
		}
	}
	for _, key := range o.Versions {
		add("version:"+key, match.Translation)
	}
	own, sought := match.TitleMarks(o.Details)
	for _, mark := range own {
		add(mark, match.OtherPage)
	}
	for _, mark := range sought {
		t.marks = append(t.marks, happening.DeriveID(mark))
	}
	return t
}

// evidence returns the evidence by which the happenings of the sightings are looked for first, with their marks or
// without.
func (x *identification) evidence(marks bool) (all []uuid.UUID) {
	for i := range x.sightings {
		t := &x.sightings[i]
		if marks {
			all = append(all, t.marks...)
		}
		for n, bond := range t.bonds {
			if bond > match.OtherPage {
				all = append(all, t.Evidence[n])
			}
		}
	}
	return all
}

var pageSpace = uuid.MustParse("6b1d6f5e-53a1-5c0e-8a53-6c1f0f0a7d11")

// PageID returns the id of a page, a digest of its address.
func PageID(address string) uuid.UUID { return uuid.NewSHA1(pageSpace, []byte(address)) }

// PageEvidence returns the id of the happening that a page's address identifies.
func PageEvidence(address string) uuid.UUID {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return happening.DeriveID(identity.URLKey(u))
	}
	return PageID(address)
}

// bond returns what a sighting and a known happening share.
func (t *Sighting) bond(k *Shown) (bond match.Bond) {
	for _, e := range k.Evidence {
		if n := slices.Index(t.Evidence, e); n >= 0 && n < len(t.bonds) {
			bond = max(bond, t.bonds[n])
		}
	}
	return bond
}

// byMarks returns the claims of sightings without known evidence to happenings of other pages, and to those that the
// page showed before, as some calendars change their identifiers at each export.
func (x *identification) byMarks(fresh []*Sighting) (all []claim, err error) {
	if len(fresh) == 0 {
		return nil, nil
	}
	if err := x.learnMarked(fresh); err != nil {
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
	for _, t := range fresh {
		for _, k := range x.alike(t) {
			v := x.compare(t, k.Happening, match.OtherPage)
			if !v.Same && k.Here {
				v = x.compare(t, k.Happening, match.Replaced)
				v.Same = v.Same && (v.Place == 1 || len(k.Dates) > 0) // another page may still show one that was restored
			}
			if v.Same {
				all = append(all, claim{
					t:         t,
					k:         k,
					rank:      2*v.Score + v.Place, // equal titles first
					marked:    true,
					elsewhere: v.Place == 0,
				})
			}
		}
	}
	return all, nil
}

// alike returns the known happenings with a mark of a sighting that no sighting of the page has, those with a rare one
// first.
func (x *identification) alike(t *Sighting) (free []*Shown) {
	slices.SortStableFunc(t.marks, func(a, b uuid.UUID) int { return len(x.byEvidence[a]) - len(x.byEvidence[b]) })
	for _, mark := range t.marks {
		for _, k := range x.byEvidence[mark] {
			if len(free) == maxAlike {
				return free
			}
			if !x.taken[k.Happening] && (!k.Here || !x.partial) && !slices.Contains(free, k) {
				free = append(free, k)
			}
		}
	}
	return free
}

// learnMarked learns more happenings that may have marks of sightings. Those that are known from the events alone have
// the marks of their details.
func (x *identification) learnMarked(fresh []*Sighting) error {
	if x.marked == nil {
		return nil
	}
	var marks, ids []uuid.UUID
	for _, t := range fresh {
		marks = append(marks, t.marks...)
	}
	all, err := x.marked(marks)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(k Shown) bool { return x.byID[k.Happening] != nil })
	for i := range all {
		ids = append(ids, all[i].Happening)
	}
	if err := x.look(ids); err != nil {
		return err
	}
	for i := range all {
		all[i].Evidence = append(all[i].Evidence, x.marks[all[i].Happening]...)
	}
	x.learn(all)
	return nil
}

// assignID assigns a happening to a sighting. If another address had given it, its instances get other ids.
func (t *Sighting) assignID(id uuid.UUID, key string) {
	t.Happening, t.assigned = id, true
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
