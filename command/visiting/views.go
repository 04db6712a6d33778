package visiting

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	// concurrentObservations limits the observations that are recorded at a time.
	concurrentObservations = 16
	// noteUnstorable is the note about an observation that can't be stored.
	noteUnstorable = "unstorable"
)

// settle compares the details of happenings with the recorded ones, and records the difference. It leaves out
// happenings that a page ahead may show.
func (v *visit) settle(ctx context.Context) error {
	for {
		waiting, err := v.walk.Waiting(ctx)
		if err != nil || len(waiting) == 0 {
			return err
		}
		settled := make([]Settled, len(waiting))
		var mu sync.Mutex // guards tally
		group, recording := errgroup.WithContext(ctx)
		group.SetLimit(concurrentObservations)
		for i := range waiting {
			group.Go(panics.Task("visit", func() error {
				s, news, err := v.compare(recording, &waiting[i])
				if err != nil {
					return fmt.Errorf("happening %s: %w", waiting[i].Happening, err)
				}
				settled[i] = s
				mu.Lock()
				defer mu.Unlock()
				v.tally.add(news)
				v.reportFound(news)
				return nil
			}))
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if err := v.walk.Settle(ctx, settled, v.tally); err != nil || len(waiting) < MaxWaiting {
			return err
		}
	}
}

func (t *Tally) add(news Tally) {
	t.New += news.New
	t.Revised += news.Revised
	t.WentStale += news.WentStale
	t.Ahead = t.Ahead || news.Ahead
	for _, note := range news.Notes {
		if !slices.Contains(t.Notes, note) {
			t.Notes = append(t.Notes, note)
		}
	}
}

// compare records one happening if it has changed, and returns the result.
func (v *visit) compare(ctx context.Context, view *View) (Settled, Tally, error) {
	settled := Settled{Happening: view.Happening, Gone: len(view.Sightings) == 0}
	if settled.Gone {
		out, err := happening.Aggregate.Execute(ctx, v.Store, view.Happening,
			happening.MarkStale{SourceID: v.turn.Source.ID, At: v.now()}, happening.Options{Metadata: v.metadata()})
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return settled, Tally{}, nil // it is retired
		}
		if err != nil || len(out.Events) == 0 {
			return settled, Tally{}, err
		}
		return settled, Tally{WentStale: 1, Ahead: out.State.Sightings[v.sightingKey()].Details.Ahead(v.now())}, nil
	}
	o := together(v.turn.Source.ID, view.Sightings)
	var err error
	if settled.Digest = view.Now; settled.Digest == nil {
		settled.Digest, err = happening.Digest(o.Details, o.Source, o.Standing)
	}
	if err == nil && (bytes.Equal(settled.Digest, view.Digest) || view.Digest == nil && v.tooOld(o.Details)) {
		return settled, Tally{}, nil
	}
	// Most happenings that are new to the source are new in the store: try without reading.
	known := eventstore.Loaded[happening.State]{Revision: eventstore.NoStream}
	if view.Digest != nil {
		known, err = happening.Aggregate.Load(ctx, v.Store, view.Happening)
	}
	var out eventstore.Outcome[happening.State, happening.Event]
	if err == nil {
		out, err = v.observe(ctx, view.Happening, happening.Observe{
			SourceID:    v.turn.Source.ID,
			Key:         view.Key,
			Keys:        o.Keys,
			Details:     o.Details,
			PublishedAt: o.PublishedAt,
			Source:      o.Source,
			At:          v.now(),
			Standing:    o.Standing,
			Origins:     collect.Stored(o.Origins),
			Version:     o.Version,
		}, &known)
	}
	switch {
	case err == nil:
	case errors.Is(err, happening.ErrRetired), errors.Is(err, eventstore.ErrStreamDeleted):
		return settled, Tally{}, nil
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrWrongRevision), ctx.Err() != nil:
		return settled, Tally{}, err
	default:
		// An unstorable observation (too large, not text) must not keep the others out.
		v.log.Warn("observation not stored", "happening", view.Happening, "error", err)
		return settled, Tally{Notes: []source.Note{{Code: noteUnstorable,
			Text: "an event was left out, because it can't be stored"}}}, nil
	}
	var news Tally
	for _, event := range out.Events {
		switch e := event.(type) {
		case happening.Observed:
			news.New++
			news.Ahead = e.Details.Ahead(v.now())
		case happening.Revised:
			news.Revised++
			news.Ahead = e.Details.ChangedAhead(known.State.Sightings[v.sightingKey()].Details, v.now(), timing.Firm(v.now()))
		// no changes by this source
		case happening.WentStale, happening.OccurrenceChanged, happening.Merged, happening.Split:
		}
	}
	return settled, news, nil
}

// observe records an observation, unless its happening is retired or about to be.
func (v *visit) observe(
	ctx context.Context, id uuid.UUID, o happening.Observe, known *eventstore.Loaded[happening.State],
) (eventstore.Outcome[happening.State, happening.Event], error) {
	unlessRetired := happening.ObserveUnlessRetired{Observe: o, Before: v.retiredBefore()}
	options := happening.Options{Metadata: v.metadata(), Known: known}
	out, err := happening.Aggregate.Execute(ctx, v.Store, id, unlessRetired, options)
	if !errors.Is(err, happening.ErrRetired) {
		return out, err
	}
	// A happening that it is merged with may go on.
	if retired, lookErr := command.HappeningRetired(ctx, v.Store, id, unlessRetired.Before); lookErr != nil || retired {
		return out, cmp.Or(lookErr, err)
	}
	return happening.Aggregate.Execute(ctx, v.Store, id, o, options)
}

// tooOld reports whether a happening has ended so long ago that it would be retired.
func (v *visit) tooOld(d happening.Details) bool {
	last := d.Last()
	return !last.IsZero() && last.Before(v.retiredBefore())
}

// retired returns those of some happenings that are retired, or about to be.
func (v *visit) retired(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	before, all := v.retiredBefore(), make([]bool, len(ids))
	group, looking := errgroup.WithContext(ctx)
	group.SetLimit(concurrentObservations)
	for i, id := range ids {
		group.Go(panics.Task("visit", func() (err error) {
			all[i], err = command.HappeningRetired(looking, v.Store, id, before)
			return err
		}))
	}
	err := group.Wait()
	found := map[uuid.UUID]bool{}
	for i, id := range ids {
		if all[i] {
			found[id] = true
		}
	}
	return found, err
}

// sightingKey returns the source as sightingKey.
func (v *visit) sightingKey() happening.SightingKey {
	return happening.SightingKey{Source: v.turn.Source.ID}
}

// together combines what the pages of a source show of one happening.
func together(id uuid.UUID, sightings []Sighting) collect.Observation {
	all := make([]happening.Sighting, len(sightings))
	var o collect.Observation
	for i, t := range sightings {
		all[i] = happening.Sighting{
			SourceID:    id,
			Page:        t.Page.String(),
			Standing:    t.Observation.Standing,
			Details:     t.Observation.Details,
			Source:      t.Observation.Source,
			PublishedAt: t.Observation.PublishedAt,
			Since:       t.Since,
			DatedAt:     t.DatedAt,
		}
		o.Version = max(o.Version, t.Observation.Version)
		for _, key := range t.Observation.Keys {
			if !slices.Contains(o.Keys, key) {
				o.Keys = append(o.Keys, key)
			}
		}
	}
	c := happening.Combine(all)
	o.Details, o.Source, o.PublishedAt, o.Standing = c.Details, c.Source, c.PublishedAt, c.Standing
	for _, field := range happening.Fields {
		for _, i := range c.GivenBy(field) {
			for _, origin := range sightings[i].Observation.Origins {
				if origin.Field == field {
					o.Origins = append(o.Origins, origin)
				}
			}
		}
	}
	return o
}
