package visiting

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/command/collect/match"
)

// identify assigns a happening to each observation of a page: a known one of the source if [match.Compare] decides that
// it is the same, else the one that its key gives.
func (v *visit) identify(ctx context.Context, visited *collect.Visited) ([]Sighting, error) {
	observations := visited.Page.Observations
	if len(observations) == 0 {
		return nil, nil
	}
	x, err := newIdentification(observations, v.now())
	if err != nil {
		return nil, err
	}
	first := visited.Known.ReadAt.IsZero() // then most sightings are new
	known, err := v.walk.Identify(ctx, visited.Known, x.evidence(first))
	if err != nil {
		return nil, err
	}
	x.partial = visited.Page.Partial
	return x.sightings, x.resolve(known, memory{
		detailsOf: func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return v.walk.DetailsOf(ctx, ids) },
		retired:   func(ids []uuid.UUID) (map[uuid.UUID]bool, error) { return v.retired(ctx, ids) },
		marked: func(marks []uuid.UUID) ([]Shown, error) {
			if first {
				return v.walk.Restored(ctx)
			}
			return v.walk.Identify(ctx, visited.Known, marks)
		},
	})
}

// identification assigns happenings to the sightings of a page: first those of the same evidence, then those of other
// pages and those that this page no longer shows, by marks of their titles.
//
// An address identifies a happening as long as its title or its start stays, because pages are reused. If both are
// new, the sighting is of the next happening of the address. The key of that is an [identity.Successor], so that all
// processes find the same one, even from the recorded events alone.
type identification struct {
	memory

	sightings  []Sighting
	now        time.Time
	partial    bool // the page may still show what is missing
	byID       map[uuid.UUID]*Shown
	byEvidence map[uuid.UUID][]*Shown
	subjects   map[uuid.UUID][]match.Subject // earlier details of happenings
	marks      map[uuid.UUID][]uuid.UUID     // of these
	taken      map[uuid.UUID]bool            // happenings of the page's sightings
	over       map[uuid.UUID]bool            // happenings by whether they are retired
}

// memory reads earlier details of happenings, those of some that are retired, and more that may have the marks of
// sightings. Only detailsOf is required.
type memory struct {
	detailsOf func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	retired   func([]uuid.UUID) (map[uuid.UUID]bool, error)
	marked    func(marks []uuid.UUID) ([]Shown, error)
}

const (
	// maxSuccessors limits the happenings of one address that have a number. Later ones are distinguished by their titles.
	maxSuccessors = 32
	// maxAlike limits the happenings with a common mark that a sighting is compared with.
	maxAlike = 32
	// loadBatch is the number of happenings whose details are read at a time.
	loadBatch = 256
)

func newIdentification(observations []collect.Observation, now time.Time) (*identification, error) {
	x := &identification{
		sightings:  make([]Sighting, len(observations)),
		now:        now,
		byID:       map[uuid.UUID]*Shown{},
		byEvidence: map[uuid.UUID][]*Shown{},
		subjects:   map[uuid.UUID][]match.Subject{},
		marks:      map[uuid.UUID][]uuid.UUID{},
		taken:      map[uuid.UUID]bool{},
		over:       map[uuid.UUID]bool{},
	}
	for i, o := range observations {
		instances, err := json.Marshal(o.Details.Instances)
		if err != nil {
			return nil, fmt.Errorf("dates of observation: %w", err)
		}
		digest := sha256.Sum256(instances)
		x.sightings[i] = newSighting(o, digest[:8])
	}
	return x, nil
}

// resolve assigns happenings to sightings. Two sightings of one page never get the same happening.
func (x *identification) resolve(known []Shown, before memory) error {
	x.memory = before
	x.learn(known)
	if err := x.look(x.doubtful()); err != nil {
		return err
	}
	if err := x.meet(x.byKeys()); err != nil {
		return err
	}
	claims, err := x.byMarks(x.unassigned())
	if err == nil {
		err = x.meet(claims)
	}
	left := x.unassigned()
	var own []claim
	for _, t := range left {
		own = append(own, claim{t: t, k: &Shown{Identity: t.Identity}})
	}
	if err := cmp.Or(err, x.lookRetired(own)); err != nil {
		return err
	}
	for _, t := range left {
		if x.byID[t.Happening] != nil || !x.continues(t, t.Happening) {
			if err := x.useSuccessor(t); err != nil {
				return err
			}
		}
		t.New = x.byID[t.Happening] == nil
	}
	return nil
}

func (x *identification) learn(known []Shown) {
	for i := range known {
		k := &known[i]
		x.byID[k.Happening] = k
		for _, e := range k.Evidence {
			x.byEvidence[e] = append(x.byEvidence[e], k)
		}
	}
}

// unassigned returns the sightings without a known happening.
func (x *identification) unassigned() (all []*Sighting) {
	for i := range x.sightings {
		if !x.sightings[i].assigned {
			all = append(all, &x.sightings[i])
		}
	}
	return all
}

// claim is a known happening that a sighting may be of.
type claim struct {
	t         *Sighting
	k         *Shown
	rank      float64
	marked    bool // it follows from marks
	elsewhere bool // the places differ, so that it has to be the only claim by marks
}

// meet assigns happenings to sightings by claims, in the order of their ranks. Of equal ones the happening that fewer
// pages show comes first: so the pages of two that one page shows side by side get one each.
func (x *identification) meet(claims []claim) error {
	if err := x.lookRetired(claims); err != nil {
		return err
	}
	slices.SortStableFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(len(a.k.Dates), len(b.k.Dates)))
	})
	for _, c := range claims {
		if c.t.assigned || x.taken[c.k.Happening] || x.follows(c.t, c.k.Happening) ||
			c.elsewhere && len(x.alike(c.t)) > 1 {
			continue
		}
		c.t.Rekeyed = c.marked && c.k.Here
		c.t.assignID(c.k.Happening, c.k.Key)
		x.taken[c.k.Happening] = true
	}
	return nil
}

// doubtful returns the happenings that share nothing but an address with a sighting, and whose dates differ, or a
// version in another language.
func (x *identification) doubtful() (all []uuid.UUID) {
	for i := range x.sightings {
		t := &x.sightings[i]
		for n, bond := range t.bonds {
			e := t.Evidence[n]
			if bond == match.Address && e == t.Happening && x.byID[e] == nil {
				all = append(all, e) // another source may have shown it
			}
			for _, k := range x.byEvidence[e] {
				if bond == match.Address && !k.showsDatesOf(t) || bond == match.Translation {
					all = append(all, k.Happening)
				}
			}
		}
	}
	return all
}

// lookRetired finds out which happenings are retired that sightings with dates ahead may be of, and that the source
// does not show with these dates. A retired happening is none of them: what has a new date follows it.
func (x *identification) lookRetired(claims []claim) error {
	if x.retired == nil {
		return nil
	}
	var ids []uuid.UUID
	for _, c := range claims {
		if c.t.Observation.Details.Ahead(x.now) && !c.k.showsDatesOf(c.t) {
			ids = append(ids, c.k.Happening)
		}
	}
	if ids = unasked(ids, x.over); len(ids) == 0 {
		return nil
	}
	found, err := x.retired(ids)
	maps.Copy(x.over, found)
	return err
}

// unasked returns the ids that are no keys of answers, each once, and makes them keys.
func unasked[A any](ids []uuid.UUID, answers map[uuid.UUID]A) (some []uuid.UUID) {
	for _, id := range ids {
		if _, done := answers[id]; !done {
			answers[id] = *new(A)
			some = append(some, id)
		}
	}
	return some
}

// follows reports whether a happening is retired, and a sighting has dates ahead.
func (x *identification) follows(t *Sighting, id uuid.UUID) bool {
	return x.over[id] && t.Observation.Details.Ahead(x.now)
}

// look reads the earlier details of happenings.
func (x *identification) look(ids []uuid.UUID) error {
	for some := range slices.Chunk(unasked(ids, x.subjects), loadBatch) {
		details, err := x.detailsOf(some)
		if err != nil {
			return err
		}
		for id, all := range details {
			for _, d := range all {
				x.subjects[id] = append(x.subjects[id], match.Of(d, nil, x.now))
				own, _ := match.TitleMarks(d)
				for _, mark := range own {
					x.marks[id] = append(x.marks[id], happening.DeriveID(mark))
				}
			}
		}
	}
	return nil
}

// byKeys returns the claims by evidence: of a happening's own key, then of one with the same dates, then of others.
func (x *identification) byKeys() (all []claim) {
	const own, dated = 2, 1
	for i := range x.sightings {
		t := &x.sightings[i]
		if k := x.byID[t.Happening]; k != nil && x.same(t, k) {
			all = append(all, claim{t: t, k: k, rank: own})
		}
		for n, bond := range t.bonds {
			for _, k := range x.byEvidence[t.Evidence[n]] {
				if bond == match.OtherPage || !x.same(t, k) {
					continue
				}
				c := claim{t: t, k: k}
				if k.showsDatesOf(t) {
					c.rank = dated
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// same reports whether a sighting is of a known happening that it shares evidence with. One without details may be any
// of its address.
func (x *identification) same(t *Sighting, k *Shown) bool {
	switch bond := t.bond(k); bond {
	case match.Identifier:
		return true
	case match.Address:
		return k.showsDatesOf(t) || x.continues(t, k.Happening)
	default:
		return x.compare(t, k.Happening, bond).Same
	}
}

// continues reports whether the earlier details of a happening allow that a sighting is of it.
func (x *identification) continues(t *Sighting, id uuid.UUID) bool {
	return !x.follows(t, id) && (len(x.subjects[id]) == 0 || x.compare(t, id, match.Address).Same)
}

// compare returns the best verdict on a sighting beside the earlier details of a happening.
func (x *identification) compare(t *Sighting, id uuid.UUID, bond match.Bond) (best match.Verdict) {
	if len(x.subjects[id]) > 0 && t.subject == nil {
		subject := match.Of(t.Observation.Details, nil, x.now)
		t.subject = &subject
	}
	for _, details := range x.subjects[id] {
		if v := match.Compare(*t.subject, details, bond); v.Same && (!best.Same || v.Place > best.Place) {
			best = v
		}
	}
	return best
}

// useSuccessor assigns the next happening of its address to a sighting.
func (x *identification) useSuccessor(t *Sighting) error {
	address := t.Observation.Key
	var ids []uuid.UUID
	var claims []claim
	for n := 2; n <= maxSuccessors; n++ {
		ids = append(ids, happening.DeriveID(identity.Successor(address, n)))
		claims = append(claims, claim{t: t, k: &Shown{Identity: Identity{Happening: ids[n-2]}}})
	}
	if err := cmp.Or(x.look(ids), x.lookRetired(claims)); err != nil {
		return err
	}
	for i, id := range ids {
		if !x.taken[id] && x.continues(t, id) {
			t.assignID(id, identity.Successor(address, i+2))
			return nil
		}
	}
	key := address + " (" + identity.Title(t.Observation.Details.Title) + ")"
	t.assignID(happening.DeriveID(key), key)
	return nil
}

// showsDatesOf reports whether a page of the source shows the same dates.
func (s *Shown) showsDatesOf(t *Sighting) bool {
	return slices.ContainsFunc(s.Dates, func(dates []byte) bool { return bytes.Equal(dates, t.Dates) })
}
