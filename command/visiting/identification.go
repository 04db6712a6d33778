package visiting

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
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
func (v *visit) identify(ctx context.Context, visited *collect.Visited) ([]Telling, error) {
	observations := visited.Page.Observations
	if len(observations) == 0 {
		return nil, nil
	}
	x, err := newIdentification(observations, v.now())
	if err != nil {
		return nil, err
	}
	known, err := v.walk.Identify(ctx, visited.Known, x.evidence())
	if err != nil {
		return nil, err
	}
	x.partial = visited.Page.Partial
	return x.tellings, x.resolve(known, memory{
		told:    func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return v.walk.Told(ctx, ids) },
		retired: func(ids []uuid.UUID) (map[uuid.UUID]bool, error) { return v.retired(ctx, ids) },
		restored: func() ([]Shown, error) {
			if !visited.Known.ReadAt.IsZero() {
				return nil, nil
			}
			return v.walk.Restored(ctx)
		},
	})
}

// identification assigns happenings to the tellings of a page: first those of the same evidence, then, if title and
// day are the same, those of other pages and those that this page no longer shows.
//
// An address identifies a happening as long as its title or its start stays, because pages are reused. If both are
// new, the telling is of the next happening of the address. The key of that is an [identity.Successor], so that all
// processes find the same one, even from the recorded events alone.
type identification struct {
	memory

	tellings   []Telling
	now        time.Time
	partial    bool // the page may still show what is missing
	byID       map[uuid.UUID]*Shown
	byEvidence map[uuid.UUID][]*Shown
	subjects   map[uuid.UUID][]match.Subject // earlier details of happenings
	programmes map[uuid.UUID]uuid.UUID       // of these
	taken      map[uuid.UUID]bool            // happenings of the page's tellings
	over       map[uuid.UUID]bool            // happenings by whether they are retired
}

// memory reads earlier details of happenings, those of some that are retired, and, for a page that was never read,
// those that are known from the events alone. Only told is required.
type memory struct {
	told     func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	retired  func([]uuid.UUID) (map[uuid.UUID]bool, error)
	restored func() ([]Shown, error)
}

const (
	// maxSuccessors limits the happenings of one address that have a number. Later ones are distinguished by their titles.
	maxSuccessors = 32
	// maxAlike limits the happenings of one title and day that a telling is compared with.
	maxAlike = 32
	// loadBatch is the number of happenings whose details are read at a time.
	loadBatch = 256
)

func newIdentification(observations []collect.Observation, now time.Time) (*identification, error) {
	x := &identification{
		tellings:   make([]Telling, len(observations)),
		now:        now,
		byID:       map[uuid.UUID]*Shown{},
		byEvidence: map[uuid.UUID][]*Shown{},
		subjects:   map[uuid.UUID][]match.Subject{},
		programmes: map[uuid.UUID]uuid.UUID{},
		taken:      map[uuid.UUID]bool{},
		over:       map[uuid.UUID]bool{},
	}
	for i, o := range observations {
		instances, err := json.Marshal(o.Details.Instances)
		if err != nil {
			return nil, fmt.Errorf("dates of observation: %w", err)
		}
		digest := sha256.Sum256(instances)
		x.tellings[i] = newTelling(o, digest[:8])
	}
	return x, nil
}

// resolve assigns known happenings to tellings. Two tellings of one page never get the same happening.
func (x *identification) resolve(known []Shown, before memory) error {
	x.memory = before
	x.learn(known)
	if err := x.look(x.doubtful()); err != nil {
		return err
	}
	if err := x.lookRetired(x.redated()); err != nil {
		return err
	}
	for i := range x.tellings {
		t := &x.tellings[i]
		if k := x.byID[t.Happening]; k != nil && x.same(t, k, t.bond(k)) {
			x.taken[t.Happening] = true
		}
	}
	var fresh, reused []*Telling
	for i := range x.tellings {
		t := &x.tellings[i]
		if k := x.find(t); k != nil {
			x.assign(t, k)
		} else if x.byID[t.Happening] == nil {
			fresh = append(fresh, t)
		} else {
			reused = append(reused, t)
		}
	}
	fresh, err := x.pair(fresh)
	if err != nil {
		return err
	}
	for _, t := range append(fresh, reused...) {
		if x.byID[t.Happening] != nil || !x.continues(t, t.Happening) {
			if err := x.useSuccessor(t); err != nil {
				return err
			}
		}
		x.taken[t.Happening] = true
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

// assign assigns a known happening to a telling.
func (x *identification) assign(t *Telling, k *Shown) {
	t.assignID(k.Happening, k.Key)
	x.taken[k.Happening] = true
}

// doubtful returns the happenings that share nothing but an address with a telling, and whose dates differ.
func (x *identification) doubtful() []uuid.UUID {
	var all []uuid.UUID
	for i := range x.tellings {
		t := &x.tellings[i]
		for _, e := range t.addresses {
			if e == t.Happening && x.byID[e] == nil {
				all = append(all, e) // another source may have shown it
			}
			for _, k := range x.byEvidence[e] {
				if !k.showsDatesOf(t) {
					all = append(all, k.Happening)
				}
			}
		}
	}
	return all
}

// redated returns the happenings that tellings with dates ahead may be of and that the source does not show with these
// dates. A retired happening is none of them: what has a new date follows it.
func (x *identification) redated() []uuid.UUID {
	var all []uuid.UUID
	for i := range x.tellings {
		t := &x.tellings[i]
		if !t.Observation.Details.Ahead(x.now) {
			continue
		}
		if k := x.byID[t.Happening]; k == nil || !k.showsDatesOf(t) {
			all = append(all, t.Happening)
		}
		for _, e := range t.Evidence {
			for _, k := range x.byEvidence[e] {
				if !k.showsDatesOf(t) {
					all = append(all, k.Happening)
				}
			}
		}
	}
	return all
}

// lookRetired finds out which happenings are retired.
func (x *identification) lookRetired(ids []uuid.UUID) error {
	if x.retired == nil {
		return nil
	}
	var unknown []uuid.UUID
	for _, id := range ids {
		if _, done := x.over[id]; !done {
			x.over[id] = false
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := x.retired(unknown)
	for id := range found {
		x.over[id] = true
	}
	return err
}

// follows reports whether a happening is retired, and a telling has dates ahead.
func (x *identification) follows(t *Telling, id uuid.UUID) bool {
	return x.over[id] && t.Observation.Details.Ahead(x.now)
}

// look reads the earlier details of happenings.
func (x *identification) look(ids []uuid.UUID) error {
	var unknown []uuid.UUID
	for _, id := range ids {
		if _, done := x.subjects[id]; !done {
			x.subjects[id] = nil
			unknown = append(unknown, id)
		}
	}
	for some := range slices.Chunk(unknown, loadBatch) {
		told, err := x.told(some)
		if err != nil {
			return err
		}
		for id, all := range told {
			for _, d := range all {
				x.subjects[id] = append(x.subjects[id], match.Of(d, nil, x.now))
				x.programmes[id] = programmeOf(&d)
			}
		}
	}
	return nil
}

// find returns the known happening of a telling by evidence, or nil.
func (x *identification) find(t *Telling) *Shown {
	if k := x.byID[t.Happening]; k != nil && x.same(t, k, t.bond(k)) {
		return k
	}
	var found *Shown
	for _, e := range t.Evidence {
		if e == t.programme {
			continue
		}
		for _, k := range x.byEvidence[e] {
			switch {
			case x.taken[k.Happening] || !x.same(t, k, t.bond(k)):
			case found == nil, !found.showsDatesOf(t) && k.showsDatesOf(t):
				found = k
			}
		}
	}
	return found
}

// same reports whether a telling is of a known happening. One without details may be any of its address.
func (x *identification) same(t *Telling, k *Shown, bond match.Bond) bool {
	switch {
	case x.follows(t, k.Happening):
		return false
	case bond == match.Address:
		return k.showsDatesOf(t) || x.continues(t, k.Happening)
	}
	return bond == match.Identifier || x.likeness(t, k, bond) >= 0
}

// continues reports whether the earlier details of a happening allow that a telling is of it.
func (x *identification) continues(t *Telling, id uuid.UUID) bool {
	if x.follows(t, id) {
		return false
	}
	told := x.subjects[id]
	return len(told) == 0 || x.likeness(t, &Shown{Identity: Identity{Happening: id}}, match.Address) >= 0
}

// likeness returns the best score of a telling beside the earlier details of a happening that is the same, else -1.
func (x *identification) likeness(t *Telling, k *Shown, bond match.Bond) float64 {
	best := -1.0
	if t.subject == nil {
		subject := match.Of(t.Observation.Details, nil, x.now)
		t.subject = &subject
	}
	for _, told := range x.subjects[k.Happening] {
		if v := match.Compare(*t.subject, told, bond); v.Same {
			best = max(best, v.Score)
		}
	}
	return best
}

// useSuccessor assigns the next happening of its address to a telling.
func (x *identification) useSuccessor(t *Telling) error {
	address := t.Observation.Key
	ids := make([]uuid.UUID, 0, maxSuccessors)
	for n := 2; n <= maxSuccessors; n++ {
		ids = append(ids, happening.DeriveID(identity.Successor(address, n)))
	}
	if err := x.look(ids); err != nil {
		return err
	}
	if t.Observation.Details.Ahead(x.now) {
		if err := x.lookRetired(ids); err != nil {
			return err
		}
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
func (s *Shown) showsDatesOf(t *Telling) bool {
	return slices.ContainsFunc(s.Dates, func(dates []byte) bool { return bytes.Equal(dates, t.Dates) })
}
