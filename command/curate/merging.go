package curate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// Likeness finds similar happenings of sources that use different keys, and stores the results of comparisons. It may
// forget happenings that are over.
type Likeness interface {
	// Note replaces the marks of happenings. It returns for each the happenings that share a key with it, or a place or a
	// title together with the start or the day; a limited number of them. At is the time of the marks.
	Note(ctx context.Context, marks map[uuid.UUID][]match.Mark, at time.Time) (alike map[uuid.UUID][]uuid.UUID, err error)
	// Compared stores the results of comparisons, at the latest with the next Memory.Keep.
	Compared(ctx context.Context, all []Comparison) error
}

// Comparison is the result of comparing two happenings. A has the lower id.
type Comparison struct {
	A, B   uuid.UUID
	Same   bool
	Reason match.Reason
	Score  float64
	At     time.Time
}

const (
	// minProfiles is the number of happenings that are kept between batches. At most twice as many are.
	minProfiles = 4096
	// maxLoads limits concurrent reads of streams, maxMerges concurrent merges.
	maxLoads  = 32
	maxMerges = 64
	// compareBatch is the number of happenings that are loaded with their candidates at a time.
	compareBatch = 32
)

// merging finds happenings that are the same, merges them, and forwards the observations of a merged one to the one
// that stays. It precedes the curation of feeds, so that a known happening is not published under another id.
type merging struct {
	store    eventstore.Store
	likeness Likeness
	log      *slog.Logger
	profiles *profiles
	keep     time.Duration // of what is over; 0 means forever
}

func newMerging(store eventstore.Store, likeness Likeness, keep time.Duration, log *slog.Logger) *merging {
	return &merging{
		keep:     keep,
		store:    store,
		likeness: likeness,
		log:      log,
		profiles: newProfiles(minProfiles),
	}
}

// react processes the happening events of a batch. It returns the happenings that are merged into others, and whether
// comparisons are to be stored.
func (m *merging) react(
	ctx context.Context, events []event, replayed func(*eventstore.Recorded) bool,
) (merged map[uuid.UUID]bool, compared bool, err error) {
	changed, oneSided, at := m.changed(events, replayed)
	if err := m.finish(ctx, oneSided); err != nil {
		return nil, false, err
	}
	if len(changed) == 0 {
		return nil, false, nil
	}
	if err := m.load(ctx, changed, at); err != nil {
		return nil, false, err
	}
	merged = map[uuid.UUID]bool{}
	var roots, into []uuid.UUID
	marks := make(map[uuid.UUID][]match.Mark, len(changed))
	for _, id := range changed {
		p := m.profiles.get(id)
		if p.State.Into == uuid.Nil {
			roots = append(roots, id)
			marks[id] = p.subject.Marks()
			continue
		}
		merged[id] = true
		into = append(into, p.State.Into)
	}
	if err := m.forwardEach(ctx, changed, into, at); err != nil {
		return nil, false, err
	}
	alike, err := m.likeness.Note(ctx, marks, at)
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
	return merged, len(results) > 0, m.likeness.Compared(ctx, slices.Collect(maps.Values(results)))
}

// forwardEach forwards the observations of merged happenings to those that stay.
func (m *merging) forwardEach(ctx context.Context, changed, into []uuid.UUID, at time.Time) error {
	if err := m.load(ctx, into, at); err != nil {
		return err
	}
	type pair struct{ stays, goes *profile }
	var pairs []pair // collected before forwarding, which changes profiles
	for _, id := range changed {
		if goes := m.profiles.get(id); goes.State.Into != uuid.Nil {
			pairs = append(pairs, pair{m.profiles.get(goes.State.Into), goes})
		}
	}
	forwarding := m.begin(ctx)
	for _, p := range pairs {
		stays, goes := p.stays, p.goes
		err := forwarding.start(stays, goes, func(ctx context.Context) error {
			err := m.forward(ctx, stays, goes, at)
			if errors.Is(err, happening.ErrNotMerged) || errors.Is(err, eventstore.ErrStreamDeleted) {
				return nil // they are being split, or are retired
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return forwarding.wait()
}

// compareEach compares happenings with similar ones.
func (m *merging) compareEach(ctx context.Context, roots []uuid.UUID, alike map[uuid.UUID][]uuid.UUID,
	at time.Time) (map[[2]uuid.UUID]Comparison, error) {
	compared := map[[2]uuid.UUID]Comparison{}
	dealtWith := len(m.profiles.held)
	for some := range slices.Chunk(roots, compareBatch) {
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
				return nil, errors.Join(err, merging.wait())
			}
		}
		if err := merging.wait(); err != nil {
			return nil, err
		}
		m.profiles.evictData(dealtWith)
	}
	return compared, nil
}

// changed returns the happenings with observations, in order, and the merges and splits of which the events have only
// one side. The profile of a new happening is made from its event.
func (m *merging) changed(events []event, replayed func(*eventstore.Recorded) bool) (ids []uuid.UUID,
	oneSided map[oneSidedMerge]happening.Event, at time.Time) {
	m.profiles.age()
	oneSided = map[oneSidedMerge]happening.Event{}
	seen := map[uuid.UUID]bool{}
	for i := range events {
		id := events[i].StreamID()
		switch e := events[i].happening.(type) {
		case nil: // of another aggregate
			continue
		case happening.Observed:
			at = e.At
		case happening.Revised:
			at = e.At
		case happening.WentStale:
			at = e.At
		case happening.OccurrenceChanged:
			continue // follows from the other events
		case happening.Merged:
			m.profiles.forget(id)
			recordSide(oneSided, oneSidedMerge{stays: e.Into, goes: e.From}, id, e)
			continue
		case happening.Split:
			m.profiles.forget(id)
			recordSide(oneSided, oneSidedMerge{stays: e.Into, goes: e.From, split: true}, id, e)
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
	return ids, oneSided, at
}

// load reads the happenings without a profile.
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
	group.SetLimit(maxLoads)
	for i, id := range missing {
		group.Go(panics.Task("feed curation", func() error {
			loaded, err := happening.Aggregate.Load(loading, m.store, id)
			if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
				return fmt.Errorf("happening %s: %w", id, err)
			}
			found[i] = newProfile(id, loaded, at) // of a retired one: not observed
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range missing {
		m.profiles.put(id, found[i])
	}
	return nil
}

// stays follows merges from a happening to the one that stays. It returns uuid.Nil for a ring, which no merge makes.
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
			m.log.Error("happenings merged in a ring, comparison skipped", "happening", other.String())
			return uuid.Nil, nil
		}
		passed[other] = true
		other = into
		if err := m.load(ctx, []uuid.UUID{other}, at); err != nil {
			return other, err
		}
	}
}

// compareAll compares a happening with candidates, and starts to merge it with the equal ones.
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
		if other == id || mine.State.Into != uuid.Nil || theirs.State.Into != uuid.Nil || !theirs.observed ||
			m.retired(mine, at) || m.retired(theirs, at) {
			continue
		}
		pair := [2]uuid.UUID{id, other}
		if bytes.Compare(id[:], other[:]) > 0 {
			pair = [2]uuid.UUID{other, id}
		}
		if _, done := compared[pair]; done {
			continue
		}
		v := match.Compare(mine.subject, theirs.subject, mine.bond(theirs))
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
		if err := merging.start(stays, goes, func(ctx context.Context) error {
			return m.merge(ctx, stays, goes, v, at)
		}); err != nil {
			return err
		}
	}
	return nil
}

// retired reports whether a happening is retired, or about to be.
func (m *merging) retired(p *profile, at time.Time) bool {
	return m.keep > 0 && !p.overAt.IsZero() && p.overAt.Before(at.Add(-m.keep))
}

// merge records that two happenings are the same. An interrupted merge continues when it is repeated.
func (m *merging) merge(ctx context.Context, stays, goes *profile, v match.Verdict, at time.Time) error {
	if err := m.whole(ctx, goes); err != nil {
		return unlessRetired(err)
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
		// The one that stays enters feeds before the other leaves them, so that feeds do not publish a known happening.
		err = m.forward(ctx, stays, goes, at)
	}
	if err == nil {
		command.From, command.Members, command.Into = uuid.Nil, nil, stays.id
		err = m.execute(ctx, goes, command)
	}
	if errors.Is(err, happening.ErrApart) || errors.Is(err, happening.ErrMergedElsewhere) ||
		errors.Is(err, happening.ErrNotMerged) {
		return nil // another process was faster
	}
	return unlessRetired(err)
}

// unlessRetired passes over retired happenings: nothing is merged with them.
func unlessRetired(err error) error {
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return nil
	}
	return err
}

// forward records the observations of a merged happening in the one that stays.
func (m *merging) forward(ctx context.Context, stays, goes *profile, at time.Time) error {
	if err := m.whole(ctx, goes); err != nil {
		return err
	}
	for from, t := range goes.State.Sightings {
		of := from.Of
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

// execute applies a command to a happening. Its profile is mostly current, so that nothing has to be read.
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
	p.update(out.Loaded)
	return nil
}
