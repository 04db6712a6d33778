package collection

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

// identify finds which happening each observation of a page is of: one that the source is known to show and that has
// evidence in common with it, else the one that its key gives. Pages of one source know an event by different evidence.
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
	memory := memory{told: func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
		return v.walk.Told(ctx, ids)
	}}
	if !visited.Page.Partial { // else it may still show what is missing
		memory.untold = func(kept []uuid.UUID) ([]Shown, error) { return v.walk.Untold(ctx, visited.Known, kept) }
	}
	return x.tellings, x.resolve(known, memory)
}

// identification finds which happenings a page tells of.
//
// An address identifies a happening as long as its title or its start stays: pages are used again. What has neither is
// the next happening of that address. Its key is a [identity.Successor], so that all who come across it find the same
// one, also those who remember nothing but what was recorded.
type identification struct {
	tellings   []Telling
	now        time.Time
	known      []Shown
	byID       map[uuid.UUID]*Shown
	byEvidence map[uuid.UUID][]*Shown
	ask        func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	asked      map[uuid.UUID][]match.Subject // what was told of happenings before
	taken      map[uuid.UUID]bool            // by tellings of the page
}

// memory answers what was told of happenings before, and which of them a page told of that are not kept. The latter is
// nil where nobody knows.
type memory struct {
	told   func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	untold func(kept []uuid.UUID) ([]Shown, error)
}

// mostSuccessors bounds the happenings of one address that are told apart by their number. Those that follow are told
// apart by their titles.
const mostSuccessors = 32

func newIdentification(observations []collect.Observation, now time.Time) (*identification, error) {
	x := &identification{
		tellings:   make([]Telling, len(observations)),
		now:        now,
		byID:       map[uuid.UUID]*Shown{},
		byEvidence: map[uuid.UUID][]*Shown{},
		asked:      map[uuid.UUID][]match.Subject{},
		taken:      map[uuid.UUID]bool{},
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

// identityOf is what an observation says by itself.
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

// addresses are those of the evidence of a telling that are addresses of pages.
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

// resolve gives tellings the identity of known happenings: one whose id their own key gives, else the first that their
// evidence leads to. What a page tells apart stays apart: nothing that another of its tellings is of.
func (x *identification) resolve(known []Shown, before memory) error {
	x.known, x.ask = known, before.told
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
	for i := range x.tellings {
		t := &x.tellings[i]
		if k := x.byID[t.Happening]; k != nil && x.mayBe(t, k) {
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
			t.become(k.Happening, k.Key)
		} else if x.byID[t.Happening] != nil || !x.continues(t, t.Happening) {
			if err := x.succeed(t); err != nil {
				return err
			}
		}
		x.taken[t.Happening] = true
		t.New = x.byID[t.Happening] == nil
	}
	return nil
}

// doubtful lists the happenings that a telling may be of by nothing but an address, and by dates that are others.
func (x *identification) doubtful(t *Telling) []uuid.UUID {
	var all []uuid.UUID
	for n, e := range t.addresses() {
		if n == 0 && x.byID[t.Happening] == nil && e == t.Happening {
			all = append(all, e) // maybe somebody else told of it
		}
		for _, k := range x.byEvidence[e] {
			if !k.tellsDatesOf(t) && !slices.Contains(all, k.Happening) {
				all = append(all, k.Happening)
			}
		}
	}
	return all
}

// tellsDatesOf says that a page of the source tells the same dates.
func (s *Shown) tellsDatesOf(t *Telling) bool {
	return slices.ContainsFunc(s.Dates, func(dates []byte) bool { return bytes.Equal(dates, t.Dates) })
}

// look learns what was told of happenings.
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

// find gives the known happening that a telling is of, nil for none.
func (x *identification) find(t *Telling) *Shown {
	if k := x.byID[t.Happening]; k != nil && x.mayBe(t, k) {
		return k
	}
	var found *Shown
	for _, e := range t.Evidence {
		for _, k := range x.byEvidence[e] {
			switch {
			case x.taken[k.Happening] || !x.mayBe(t, k):
			case found == nil, !found.tellsDatesOf(t) && k.tellsDatesOf(t):
				found = k
			}
		}
	}
	return found
}

// mayBe says that a telling may be of a known happening: they have more in common than an address, or it continues it.
func (x *identification) mayBe(t *Telling, k *Shown) bool {
	addresses := t.addresses()
	if k.tellsDatesOf(t) || slices.ContainsFunc(t.Evidence, func(e uuid.UUID) bool {
		return slices.Contains(k.Evidence, e) && !slices.Contains(addresses, e)
	}) {
		return true
	}
	return x.continues(t, k.Happening)
}

// continues says that a telling may be of a happening by what was told of it. Where nothing was, it may.
func (x *identification) continues(t *Telling, id uuid.UUID) bool {
	told := x.asked[id]
	if len(told) == 0 {
		return true
	}
	mine := match.Of(t.Observation.Details, nil, x.now)
	return slices.ContainsFunc(told, mine.Continues)
}

// succeed makes a telling one of the next happening of its address.
func (x *identification) succeed(t *Telling) error {
	address := t.Observation.Key
	ids := make([]uuid.UUID, 0, mostSuccessors)
	for n := 2; n <= mostSuccessors; n++ {
		ids = append(ids, happening.DeriveID(identity.Successor(address, n)))
	}
	if err := x.look(slices.Clone(ids)); err != nil {
		return err
	}
	for i, id := range ids {
		if !x.taken[id] && x.continues(t, id) {
			t.become(id, identity.Successor(address, i+2))
			return nil
		}
	}
	key := address + " (" + identity.Title(t.Observation.Details.Title) + ")"
	t.become(happening.DeriveID(key), key)
	return nil
}

// become gives a telling the identity of a happening. The instances of one that has another's address are others than
// that one's.
func (t *Telling) become(id uuid.UUID, key string) {
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
