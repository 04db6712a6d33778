package collection

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
	"carillon/eventstore"
)

// Likeness keeps what happenings are found by that sources give different keys, and what comparing them came to. It may
// forget what is over.
type Likeness interface {
	// Note keeps what happenings are found by, in the place of what was kept of them, and finds for each those that share
	// a mark with it; not more than some. At is when that is.
	Note(ctx context.Context, all []Findable, at time.Time) (alike map[uuid.UUID][]uuid.UUID, err error)
	// Compared keeps what comparisons came to.
	Compared(ctx context.Context, all []Comparison) error
}

// Findable is a happening with what it is found by.
type Findable struct {
	Happening uuid.UUID
	Marks     []Mark64
}

// Mark64 stands for a key, or for a date and a place or a title.
type Mark64 struct {
	Hash int64
	Day  string // on which it takes place; "" for a key
}

// Comparison is what comparing two happenings came to. A is the one with the lower id.
type Comparison struct {
	A, B   uuid.UUID
	Same   bool
	Reason match.Reason
	Score  float64
	At     time.Time
}

const (
	// profilesKept bounds what is remembered of happenings between batches.
	profilesKept = 4096
	// loadedAtOnce bounds the streams that are read at one time.
	loadedAtOnce = 32
)

// merging finds happenings that are one, merges them, and tells the one that stays what is told of the other. It sees
// the events of happenings before feeds are filled by them, so that what is known already is no news under another id.
type merging struct {
	store    eventstore.Store
	likeness Likeness
	log      *slog.Logger
	profiles map[uuid.UUID]*profile
}

// profile is what is known of a happening for comparing it.
type profile struct {
	state   happening.State
	subject match.Subject
	since   time.Time
}

func newMerging(store eventstore.Store, likeness Likeness, log *slog.Logger) *merging {
	return &merging{store: store, likeness: likeness, log: log, profiles: map[uuid.UUID]*profile{}}
}

// react deals with the events of a batch. It says which of their happenings are merged into others. Without a merging
// nothing is merged.
func (m *merging) react(ctx context.Context, events []eventstore.Recorded, replayed func(*eventstore.Recorded) bool) (map[uuid.UUID]bool, error) {
	if m == nil {
		return nil, nil
	}
	told, at, err := m.told(events, replayed)
	if err != nil || len(told) == 0 {
		return nil, err
	}
	if err := m.load(ctx, told, at); err != nil {
		return nil, err
	}
	merged := map[uuid.UUID]bool{}
	var roots []uuid.UUID
	findable := make([]Findable, 0, len(told))
	for _, id := range told {
		p := m.profiles[id]
		if p.state.Into == uuid.Nil {
			roots = append(roots, id)
			findable = append(findable, Findable{Happening: id, Marks: marks(p.subject)})
			continue
		}
		merged[id] = true
		if err := m.tell(ctx, p.state.Into, id, at); err != nil {
			return nil, err
		}
	}
	alike, err := m.likeness.Note(ctx, findable, at)
	if err != nil {
		return nil, err
	}
	compared := map[[2]uuid.UUID]Comparison{}
	for _, id := range roots {
		if err := m.compareAll(ctx, id, alike[id], at, compared); err != nil {
			return nil, err
		}
	}
	for _, id := range roots {
		if p := m.profiles[id]; p != nil && p.state.Into != uuid.Nil {
			merged[id] = true
		}
	}
	list := make([]Comparison, 0, len(compared))
	for _, c := range compared {
		list = append(list, c)
	}
	return merged, m.likeness.Compared(ctx, list)
}

// told lists the happenings of which something is told, in order. What is known of a new one is its event.
func (m *merging) told(events []eventstore.Recorded, replayed func(*eventstore.Recorded) bool) (ids []uuid.UUID, at time.Time, err error) {
	if len(m.profiles) > profilesKept {
		clear(m.profiles)
	}
	seen := map[uuid.UUID]bool{}
	for i := range events {
		if events[i].Category() != happening.Aggregate.Category {
			continue
		}
		event, err := happening.Events.Decode(&events[i])
		if err != nil {
			return nil, at, err
		}
		id := events[i].StreamID()
		switch e := event.(type) {
		case happening.Observed:
			at = e.At
		case happening.Revised:
			at = e.At
		case happening.WentStale:
			at = e.At
		case happening.OccurrenceChanged:
			continue // follows from the others
		case happening.Merged, happening.Split:
			delete(m.profiles, id)
			continue
		}
		if events[i].Revision == 0 && !replayed(&events[i]) {
			m.profiles[id] = newProfile(happening.Aggregate.Evolve(happening.State{}, event), at)
		} else {
			delete(m.profiles, id)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, at, nil
}

func newProfile(state happening.State, at time.Time) *profile {
	return &profile{state: state, subject: match.Of(state.Combine().Details, state.Keys(), at), since: state.Since()}
}

// load reads those of the happenings that are not known.
func (m *merging) load(ctx context.Context, ids []uuid.UUID, at time.Time) error {
	missing := slices.DeleteFunc(slices.Clone(ids), func(id uuid.UUID) bool { return m.profiles[id] != nil })
	found := make([]*profile, len(missing))
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(loadedAtOnce)
	for i, id := range missing {
		group.Go(func() error {
			loaded, err := happening.Aggregate.Load(loading, m.store, id)
			if err != nil {
				return fmt.Errorf("happening %s: %w", id, err)
			}
			found[i] = newProfile(loaded.State, at)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range missing {
		m.profiles[id] = found[i]
	}
	return nil
}

func marks(s match.Subject) []Mark64 {
	hash := func(text string) int64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		return int64(h.Sum64()) //nolint:gosec // any number will do
	}
	blocks := s.Blocks()
	all := make([]Mark64, 0, len(blocks)+len(s.Keys()))
	for _, key := range s.Keys() {
		all = append(all, Mark64{Hash: hash("key " + key)})
	}
	for _, block := range blocks {
		all = append(all, Mark64{Hash: hash(block), Day: block[:len(time.DateOnly)]})
	}
	return all
}

// compareAll compares a happening with those that are found, and merges it with those that are the same.
func (m *merging) compareAll(ctx context.Context, id uuid.UUID, found []uuid.UUID, at time.Time, compared map[[2]uuid.UUID]Comparison) error {
	if err := m.load(ctx, found, at); err != nil {
		return err
	}
	for _, other := range found {
		for range 8 { // what is merged stands for nothing but the one that stays
			p := m.profiles[other]
			if p.state.Into == uuid.Nil {
				break
			}
			other = p.state.Into
			if err := m.load(ctx, []uuid.UUID{other}, at); err != nil {
				return err
			}
		}
		mine, theirs := m.profiles[id], m.profiles[other]
		if other == id || mine.state.Into != uuid.Nil || theirs.state.Into != uuid.Nil || len(theirs.state.Tellings) == 0 {
			continue
		}
		pair := [2]uuid.UUID{id, other}
		if bytes.Compare(id[:], other[:]) > 0 {
			pair = [2]uuid.UUID{other, id}
		}
		if _, done := compared[pair]; done {
			continue
		}
		v := match.Compare(mine.subject, theirs.subject, beside(mine.state, theirs.state))
		if mine.state.Apart[other] || theirs.state.Apart[id] {
			v.Same, v.Reason = false, match.KeptApart
		}
		compared[pair] = Comparison{A: pair[0], B: pair[1], Same: v.Same, Reason: v.Reason, Score: v.Score, At: at}
		if !v.Same {
			continue
		}
		stays, goes := id, other
		if cmp.Or(theirs.since.Compare(mine.since), bytes.Compare(other[:], id[:])) < 0 {
			stays, goes = other, id
		}
		if err := m.merge(ctx, stays, goes, v, at); err != nil {
			return err
		}
	}
	return nil
}

// beside says that a source has both on show.
func beside(a, b happening.State) bool {
	for teller, t := range a.Tellings {
		for other, o := range b.Tellings {
			if teller.Source == other.Source && !t.Stale && !o.Stale {
				return true
			}
		}
	}
	return false
}

// merge records that two happenings are one. Cut off anywhere, it goes on where it is begun again.
func (m *merging) merge(ctx context.Context, stays, goes uuid.UUID, v match.Verdict, at time.Time) error {
	var members []uuid.UUID
	for member, more := range m.profiles[goes].state.Holds {
		members = append(append(members, member), more...)
	}
	slices.SortFunc(members, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	command := happening.Merge{From: goes, Members: members, Reason: string(v.Reason), Score: v.Score, At: at}
	err := m.execute(ctx, stays, command)
	if err == nil {
		// Feeds get the one that stays before they lose the other: what they showed under the other id is no news to them.
		err = m.tell(ctx, stays, goes, at)
	}
	if err == nil {
		command.From, command.Members, command.Into = uuid.Nil, nil, stays
		err = m.execute(ctx, goes, command)
	}
	if errors.Is(err, happening.ErrApart) || errors.Is(err, happening.ErrMergedElsewhere) {
		return nil // somebody else was faster
	}
	return err
}

// tell tells a happening what is told of one that was merged into it.
func (m *merging) tell(ctx context.Context, stays, goes uuid.UUID, at time.Time) error {
	for teller, t := range m.profiles[goes].state.Tellings {
		of := teller.Of
		if of == uuid.Nil {
			of = goes
		}
		key := ""
		if len(t.Keys) > 0 {
			key = t.Keys[0]
		}
		err := m.execute(ctx, stays, happening.Observe{
			SourceID: t.SourceID, Key: key, Keys: t.Keys, Details: t.Details, PublishedAt: t.PublishedAt, Source: t.Source,
			At: t.DatedAt, Standing: t.Standing, Origins: t.Origins, Of: of,
		})
		if err == nil && t.Stale {
			err = m.execute(ctx, stays, happening.MarkStale{SourceID: t.SourceID, At: at, Of: of})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *merging) execute(ctx context.Context, id uuid.UUID, command happening.Command) error {
	out, err := happening.Aggregate.Execute(ctx, m.store, id, command, happening.Options{Metadata: eventstore.Metadata{Actor: FeedCurationName}})
	if err != nil {
		return fmt.Errorf("happening %s: %w", id, err)
	}
	if p := m.profiles[id]; p != nil {
		p.state = out.State
	}
	return nil
}
