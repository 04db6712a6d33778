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
	// a key with it, or a place or a title and begin with it, or both on one day; not more than some. At is when that is.
	Note(ctx context.Context, all []Findable, at time.Time) (alike map[uuid.UUID][]uuid.UUID, err error)
	// Compared keeps what comparisons came to, at the latest with what Memory.Keep keeps next.
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
	Kind match.Kind
	Day  string    // on which it takes place; "" for a key
	At   time.Time // when it begins that day; zero for a key, and where the day is all that is known
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
	// profilesKept bounds what is remembered of happenings between batches: twice as many.
	profilesKept = 4096
	// loadedAtOnce bounds the streams that are read at one time, mergedAtOnce the merges that are on their way.
	loadedAtOnce = 32
	mergedAtOnce = 64
	// rootsAtOnce is of how many happenings those that may be the same are in memory at one time.
	rootsAtOnce = 32
)

// merging finds happenings that are one, merges them, and tells the one that stays what is told of the other. It sees
// the events of happenings before feeds are filled by them, so that what is known already is no news under another id.
type merging struct {
	store    eventstore.Store
	likeness Likeness
	log      *slog.Logger
	profiles *profiles
}

func newMerging(store eventstore.Store, likeness Likeness, log *slog.Logger) *merging {
	return &merging{
		store:    store,
		likeness: likeness,
		log:      log,
		profiles: newProfiles(profilesKept),
	}
}

// react deals with the events of a batch. It says which of their happenings are merged into others, and whether there
// are comparisons to be kept. Without a merging nothing is merged.
func (m *merging) react(
	ctx context.Context, events []event, replayed func(*eventstore.Recorded) bool,
) (merged map[uuid.UUID]bool, compared bool, err error) {
	if m == nil {
		return nil, false, nil
	}
	told, halves, at := m.told(events, replayed)
	if err := m.finish(ctx, halves); err != nil {
		return nil, false, err
	}
	if len(told) == 0 {
		return nil, false, nil
	}
	if err := m.load(ctx, told, at); err != nil {
		return nil, false, err
	}
	merged = map[uuid.UUID]bool{}
	var roots, into []uuid.UUID
	findable := make([]Findable, 0, len(told))
	for _, id := range told {
		p := m.profiles.get(id)
		if p.State.Into == uuid.Nil {
			roots = append(roots, id)
			findable = append(findable, Findable{Happening: id, Marks: marks(p.subject)})
			continue
		}
		merged[id] = true
		into = append(into, p.State.Into)
	}
	if err := m.tellEach(ctx, told, into, at); err != nil {
		return nil, false, err
	}
	alike, err := m.likeness.Note(ctx, findable, at)
	if err != nil {
		return nil, false, err
	}
	results, err := m.compareEach(ctx, roots, alike, at)
	if err != nil {
		return nil, false, err
	}
	for _, id := range roots {
		if p := m.profiles.get(id); p != nil && p.State.Into != uuid.Nil {
			merged[id] = true
		}
	}
	list := make([]Comparison, 0, len(results))
	for _, c := range results {
		list = append(list, c)
	}
	return merged, len(list) > 0, m.likeness.Compared(ctx, list)
}

// tellEach tells happenings what is told of those that were merged into them.
func (m *merging) tellEach(ctx context.Context, told, into []uuid.UUID, at time.Time) error {
	if err := m.load(ctx, into, at); err != nil {
		return err
	}
	type pair struct{ stays, goes *profile }
	var pairs []pair // looked for before anything is told: telling changes what is read here
	for _, id := range told {
		if goes := m.profiles.get(id); goes.State.Into != uuid.Nil {
			pairs = append(pairs, pair{m.profiles.get(goes.State.Into), goes})
		}
	}
	telling := m.begin(ctx)
	for _, p := range pairs {
		stays, goes := p.stays, p.goes
		err := telling.of(stays, goes, func(ctx context.Context) error {
			err := m.tell(ctx, stays, goes, at)
			if errors.Is(err, happening.ErrNotMerged) {
				return nil // they are being split
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return telling.end()
}

// compareEach compares happenings with those that are like them.
func (m *merging) compareEach(ctx context.Context, roots []uuid.UUID, alike map[uuid.UUID][]uuid.UUID,
	at time.Time) (map[[2]uuid.UUID]Comparison, error) {
	compared := map[[2]uuid.UUID]Comparison{}
	dealtWith := len(m.profiles.held)
	for some := range slices.Chunk(roots, rootsAtOnce) {
		var found []uuid.UUID
		for _, id := range some {
			found = append(found, alike[id]...)
		}
		if err := m.load(ctx, found, at); err != nil {
			return nil, err
		}
		merging := m.begin(ctx)
		for _, id := range some {
			if err := m.compareAll(ctx, merging, id, alike[id], at, compared); err != nil {
				return nil, errors.Join(err, merging.end())
			}
		}
		if err := merging.end(); err != nil {
			return nil, err
		}
		m.profiles.lighten(dealtWith)
	}
	return compared, nil
}

// told lists the happenings of which something is told, in order, and the merges and splits that only one of the two
// has recorded here. What is known of a new one is its event.
func (m *merging) told(events []event, replayed func(*eventstore.Recorded) bool) (ids []uuid.UUID,
	halves map[half]happening.Event, at time.Time) {
	m.profiles.age()
	halves = map[half]happening.Event{}
	seen := map[uuid.UUID]bool{}
	for i := range events {
		id := events[i].StreamID()
		switch e := events[i].happening.(type) {
		case nil: // it is about something else
			continue
		case happening.Observed:
			at = e.At
		case happening.Revised:
			at = e.At
		case happening.WentStale:
			at = e.At
		case happening.OccurrenceChanged:
			continue // follows from the others
		case happening.Merged:
			m.profiles.forget(id)
			halfOf(halves, half{stays: id, goes: e.From}, half{stays: e.Into, goes: id}, e)
			continue
		case happening.Split:
			m.profiles.forget(id)
			halfOf(halves, half{stays: id, goes: e.From, split: true}, half{stays: e.Into, goes: id, split: true}, e)
			continue
		}
		if events[i].Revision == 0 && !replayed(events[i].Recorded) {
			m.profiles.put(id, newProfile(id, eventstore.Loaded[happening.State]{
				State: happening.Aggregate.Evolve(happening.State{}, events[i].happening), Position: events[i].Position,
			}, at))
		} else {
			m.profiles.forget(id)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, halves, at
}

// load reads those of the happenings that are not known.
func (m *merging) load(ctx context.Context, ids []uuid.UUID, at time.Time) error {
	var missing []uuid.UUID
	asked := map[uuid.UUID]bool{}
	for _, id := range ids {
		if m.profiles.get(id) == nil && !asked[id] {
			asked[id] = true
			missing = append(missing, id)
		}
	}
	found := make([]*profile, len(missing))
	group, loading := errgroup.WithContext(ctx)
	group.SetLimit(loadedAtOnce)
	for i, id := range missing {
		group.Go(func() error {
			loaded, err := happening.Aggregate.Load(loading, m.store, id)
			if err != nil {
				return fmt.Errorf("happening %s: %w", id, err)
			}
			found[i] = newProfile(id, loaded, at)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range missing {
		m.profiles.put(id, found[i])
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
		all = append(all, Mark64{Hash: hash("key " + key), Kind: match.Key})
	}
	for _, block := range blocks {
		all = append(all, Mark64{
			Hash: hash(block.Day + "|" + block.Of),
			Kind: block.Kind,
			Day:  block.Day,
			At:   block.At,
		})
	}
	return all
}

// stays returns the one that another happening was merged into in the end: what is merged stands for nothing but that.
// It returns uuid.Nil for a ring, which no merge makes.
func (m *merging) stays(ctx context.Context, merging *merges, id, other uuid.UUID, at time.Time) (uuid.UUID, error) {
	for passed := map[uuid.UUID]bool{}; ; {
		if err := merging.await(id, other); err != nil {
			return other, err
		}
		into := m.profiles.get(other).State.Into
		if into == uuid.Nil {
			return other, nil
		}
		if passed[other] {
			m.log.Error("happenings are merged in a ring; none of them is compared", "happening", other.String())
			return uuid.Nil, nil
		}
		passed[other] = true
		other = into
		if err := m.load(ctx, []uuid.UUID{other}, at); err != nil {
			return other, err
		}
	}
}

// compareAll compares a happening with those that are found, and begins to merge it with those that are the same.
func (m *merging) compareAll(
	ctx context.Context, merging *merges, id uuid.UUID, found []uuid.UUID, at time.Time,
	compared map[[2]uuid.UUID]Comparison,
) error {
	for _, other := range found {
		other, err := m.stays(ctx, merging, id, other, at)
		if err != nil {
			return err
		}
		if other == uuid.Nil {
			continue
		}
		mine, theirs := m.profiles.get(id), m.profiles.get(other)
		if other == id || mine.State.Into != uuid.Nil || theirs.State.Into != uuid.Nil || !theirs.told {
			continue
		}
		pair := [2]uuid.UUID{id, other}
		if bytes.Compare(id[:], other[:]) > 0 {
			pair = [2]uuid.UUID{other, id}
		}
		if _, done := compared[pair]; done {
			continue
		}
		v := match.Compare(mine.subject, theirs.subject, mine.beside(theirs))
		apart, err := m.apart(ctx, merging, mine, theirs, v.Same, at)
		if err != nil {
			return err
		}
		if apart {
			v.Same, v.Reason = false, match.KeptApart
		}
		compared[pair] = Comparison{
			A:      pair[0],
			B:      pair[1],
			Same:   v.Same,
			Reason: v.Reason,
			Score:  v.Score,
			At:     at,
		}
		if !v.Same {
			continue
		}
		stays, goes := mine, theirs
		if cmp.Or(theirs.since.Compare(mine.since), bytes.Compare(other[:], id[:])) < 0 {
			stays, goes = theirs, mine
		}
		if err := merging.of(stays, goes, func(ctx context.Context) error {
			return m.merge(ctx, stays, goes, v, at)
		}); err != nil {
			return err
		}
	}
	return nil
}

// merge records that two happenings are one. Cut off anywhere, it goes on where it is begun again.
func (m *merging) merge(ctx context.Context, stays, goes *profile, v match.Verdict, at time.Time) error {
	if err := m.whole(ctx, goes); err != nil {
		return err
	}
	var members []uuid.UUID
	for member, more := range goes.State.Holds {
		members = append(append(members, member), more...)
	}
	slices.SortFunc(members, func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	command := happening.Merge{
		From:    goes.id,
		Members: members,
		Reason:  string(v.Reason),
		Score:   v.Score,
		At:      at,
	}
	err := m.execute(ctx, stays, command)
	if err == nil {
		// Feeds get the one that stays before they lose the other: what they showed under the other id is no news to them.
		err = m.tell(ctx, stays, goes, at)
	}
	if err == nil {
		command.From, command.Members, command.Into = uuid.Nil, nil, stays.id
		err = m.execute(ctx, goes, command)
	}
	if errors.Is(err, happening.ErrApart) || errors.Is(err, happening.ErrMergedElsewhere) ||
		errors.Is(err, happening.ErrNotMerged) {
		return nil // somebody else was faster
	}
	return err
}

// tell tells a happening what is told of one that was merged into it.
func (m *merging) tell(ctx context.Context, stays, goes *profile, at time.Time) error {
	if err := m.whole(ctx, goes); err != nil {
		return err
	}
	for teller, t := range goes.State.Tellings {
		of := teller.Of
		if of == uuid.Nil {
			of = goes.id
		}
		key := ""
		if len(t.Keys) > 0 {
			key = t.Keys[0]
		}
		err := m.execute(ctx, stays, happening.Observe{
			SourceID:    t.SourceID,
			Key:         key,
			Keys:        t.Keys,
			Details:     t.Details,
			PublishedAt: t.PublishedAt,
			Source:      t.Source,
			At:          t.DatedAt,
			Standing:    t.Standing,
			Origins:     t.Origins,
			Of:          of,
			Version:     t.Version,
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

// execute changes a happening, as it is known: mostly it is as it was when it was read.
func (m *merging) execute(ctx context.Context, p *profile, command happening.Command) error {
	if err := m.whole(ctx, p); err != nil {
		return err
	}
	known := p.Loaded
	out, err := happening.Aggregate.Execute(ctx, m.store, p.id, command, happening.Options{
		Metadata: eventstore.Metadata{Actor: FeedCurationName}, Known: &known,
	})
	if err != nil {
		return fmt.Errorf("happening %s: %w", p.id, err)
	}
	p.know(out.Loaded)
	return nil
}
