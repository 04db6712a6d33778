package visiting

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/command/collect/match"
)

// identify assigns a happening to each observation of a page: a known one of the source that shares evidence with it,
// else the one that its key gives. Pages of one source know an event by different evidence.
func (v *visit) identify(ctx context.Context, visited *collect.Visited) ([]Telling, error) {
	observations := visited.Page.Observations
	if len(observations) == 0 {
		return nil, nil
	}
	x, err := newIdentification(observations, v.now())
	if err != nil {
		return nil, err
	}
	var all []uuid.UUID
	for i := range x.tellings {
		all = append(all, x.tellings[i].Evidence...)
	}
	known, err := v.walk.Identify(ctx, all)
	if err != nil {
		return nil, err
	}
	memory := memory{
		told:    func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return v.walk.Told(ctx, ids) },
		retired: func(ids []uuid.UUID) (map[uuid.UUID]bool, error) { return v.retired(ctx, ids) },
	}
	if !visited.Page.Partial { // a partial page may still show what is missing
		memory.untold = func(kept []uuid.UUID) ([]Shown, error) { return v.walk.Untold(ctx, visited.Known, kept) }
	}
	return x.tellings, x.resolve(known, memory)
}

// identification assigns happenings to the tellings of a page.
//
// An address identifies a happening as long as its title or its start stays, because pages are reused. If both are
// new, the telling is of the next happening of the address. The key of that is an [identity.Successor], so that all
// processes find the same one, even from the recorded events alone.
type identification struct {
	tellings   []Telling
	now        time.Time
	known      []Shown
	byID       map[uuid.UUID]*Shown
	byEvidence map[uuid.UUID][]*Shown
	ask        func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	asked      map[uuid.UUID][]match.Subject // details of known happenings
	taken      map[uuid.UUID]bool            // happenings of the page's other tellings
	askRetired func([]uuid.UUID) (map[uuid.UUID]bool, error)
	retired    map[uuid.UUID]bool // false of those that are not
}

// memory reads earlier details of happenings, and the happenings that a page no longer shows. The latter is nil if
// they are unknown. retired returns those of some happenings that are retired; nil means that none is.
type memory struct {
	told    func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	untold  func(kept []uuid.UUID) ([]Shown, error)
	retired func([]uuid.UUID) (map[uuid.UUID]bool, error)
}

// maxSuccessors limits the happenings of one address that have a number. Later ones are distinguished by their titles.
const maxSuccessors = 32

func newIdentification(observations []collect.Observation, now time.Time) (*identification, error) {
	x := &identification{
		tellings:   make([]Telling, len(observations)),
		now:        now,
		byID:       map[uuid.UUID]*Shown{},
		byEvidence: map[uuid.UUID][]*Shown{},
		asked:      map[uuid.UUID][]match.Subject{},
		taken:      map[uuid.UUID]bool{},
		retired:    map[uuid.UUID]bool{},
	}
	for i, o := range observations {
		instances, err := json.Marshal(o.Details.Instances)
		if err != nil {
			return nil, fmt.Errorf("dates of observation: %w", err)
		}
		digest := sha256.Sum256(instances)
		x.tellings[i] = Telling{Identity: identityOf(o), Observation: o, Dates: digest[:8]}
	}
	return x, nil
}

// identityOf returns the identity that an observation gives by itself.
func identityOf(o collect.Observation) Identity {
	id := Identity{Happening: happening.DeriveID(o.Key), Key: o.Key}
	id.Evidence = append(id.Evidence, id.Happening)
	add := func(key string) {
		if e := happening.DeriveID(key); !slices.Contains(id.Evidence, e) {
			id.Evidence = append(id.Evidence, e)
		}
	}
	for _, key := range o.Keys {
		add(key)
	}
	if o.Alias != "" {
		add(o.Alias)
	}
	return id
}

// addresses returns the evidence of a telling that consists of page addresses.
func (t *Telling) addresses() []uuid.UUID {
	var all []uuid.UUID
	o := &t.Observation
	for _, key := range append([]string{o.Key, o.Alias}, o.Keys...) {
		rest, isID := strings.CutPrefix(key, "id:")
		if identity.IsURL(key) || isID && slices.Contains(o.Keys, "url:"+rest) {
			all = append(all, happening.DeriveID(key))
		}
	}
	return all
}

// resolve assigns known happenings to tellings: the one that their own key gives, else the first that their
// evidence leads to. Two tellings of one page never get the same happening.
func (x *identification) resolve(known []Shown, before memory) error {
	x.known, x.ask, x.askRetired = known, before.told, before.retired
	for i := range known {
		x.byID[known[i].Happening] = &known[i]
		for _, e := range known[i].Evidence {
			x.byEvidence[e] = append(x.byEvidence[e], &known[i])
		}
	}
	doubtful := make([]uuid.UUID, 0, len(x.tellings))
	for i := range x.tellings {
		doubtful = append(doubtful, x.doubtful(&x.tellings[i])...)
	}
	if err := x.look(doubtful); err != nil {
		return err
	}
	if err := x.lookRetired(x.redated()); err != nil {
		return err
	}
	for i := range x.tellings {
		t := &x.tellings[i]
		if k := x.byID[t.Happening]; k != nil && x.plausibleMatch(t, k) {
			x.taken[t.Happening] = true
		}
	}
	if before.untold != nil {
		if err := x.rekey(before.untold); err != nil {
			return err
		}
	}
	for i := range x.tellings {
		t := &x.tellings[i]
		if t.Rekeyed {
			continue
		}
		if k := x.find(t); k != nil {
			t.assignID(k.Happening, k.Key)
		} else if x.byID[t.Happening] != nil || !x.continues(t, t.Happening) {
			if err := x.useSuccessor(t); err != nil {
				return err
			}
		}
		x.taken[t.Happening] = true
		t.New = x.byID[t.Happening] == nil
	}
	return nil
}

// doubtful returns the happenings that share nothing but an address with a telling, and whose dates differ.
func (x *identification) doubtful(t *Telling) []uuid.UUID {
	var all []uuid.UUID
	for n, e := range t.addresses() {
		if n == 0 && x.byID[t.Happening] == nil && e == t.Happening {
			all = append(all, e) // another source may have shown it
		}
		for _, k := range x.byEvidence[e] {
			if !k.showsDatesOf(t) && !slices.Contains(all, k.Happening) {
				all = append(all, k.Happening)
			}
		}
	}
	return all
}

// showsDatesOf reports whether a page of the source shows the same dates.
func (s *Shown) showsDatesOf(t *Telling) bool {
	return slices.ContainsFunc(s.Dates, func(dates []byte) bool { return bytes.Equal(dates, t.Dates) })
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
	if x.askRetired == nil {
		return nil
	}
	var unknown []uuid.UUID
	for _, id := range ids {
		if _, done := x.retired[id]; !done {
			x.retired[id] = false
			unknown = append(unknown, id)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	found, err := x.askRetired(unknown)
	for id := range found {
		x.retired[id] = true
	}
	return err
}

// follows reports whether a happening is retired, and a telling has dates ahead.
func (x *identification) follows(t *Telling, id uuid.UUID) bool {
	return x.retired[id] && t.Observation.Details.Ahead(x.now)
}

// look reads the earlier details of happenings.
func (x *identification) look(ids []uuid.UUID) error {
	ids = slices.DeleteFunc(ids, func(id uuid.UUID) bool { _, done := x.asked[id]; return done })
	if len(ids) == 0 {
		return nil
	}
	told, err := x.ask(ids)
	for _, id := range ids {
		x.asked[id] = nil
		for _, d := range told[id] {
			x.asked[id] = append(x.asked[id], match.Of(d, nil, x.now))
		}
	}
	return err
}

// find returns the known happening of a telling, or nil.
func (x *identification) find(t *Telling) *Shown {
	if k := x.byID[t.Happening]; k != nil && x.plausibleMatch(t, k) {
		return k
	}
	var found *Shown
	for _, e := range t.Evidence {
		for _, k := range x.byEvidence[e] {
			switch {
			case x.taken[k.Happening] || !x.plausibleMatch(t, k):
			case found == nil, !found.showsDatesOf(t) && k.showsDatesOf(t):
				found = k
			}
		}
	}
	return found
}

// plausibleMatch reports whether a telling may be of a known happening: it shares more than an address with it, or
// continues it.
func (x *identification) plausibleMatch(t *Telling, k *Shown) bool {
	if x.follows(t, k.Happening) {
		return false
	}
	addresses := t.addresses()
	if k.showsDatesOf(t) || slices.ContainsFunc(t.Evidence, func(e uuid.UUID) bool {
		return slices.Contains(k.Evidence, e) && !slices.Contains(addresses, e)
	}) {
		return true
	}
	return x.continues(t, k.Happening)
}

// continues reports whether the earlier details of a happening allow that a telling is of it. A happening without
// details allows it.
func (x *identification) continues(t *Telling, id uuid.UUID) bool {
	if x.follows(t, id) {
		return false
	}
	told := x.asked[id]
	if len(told) == 0 {
		return true
	}
	mine := match.Of(t.Observation.Details, nil, x.now)
	return slices.ContainsFunc(told, mine.Continues)
}

// useSuccessor assigns the next happening of its address to a telling.
func (x *identification) useSuccessor(t *Telling) error {
	address := t.Observation.Key
	ids := make([]uuid.UUID, 0, maxSuccessors)
	for n := 2; n <= maxSuccessors; n++ {
		ids = append(ids, happening.DeriveID(identity.Successor(address, n)))
	}
	if err := x.look(slices.Clone(ids)); err != nil {
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
