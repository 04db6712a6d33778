package curate

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/eventstore/panics"
)

// merges runs merges, concurrently if they are of different happenings. wait returns their result.
type merges struct {
	parent context.Context
	ctx    context.Context
	group  *errgroup.Group
	busy   map[uuid.UUID]bool

	profiles *profiles
}

func (m *merging) begin(ctx context.Context) *merges {
	g := &merges{parent: ctx, busy: map[uuid.UUID]bool{}, profiles: m.profiles}
	g.fresh()
	return g
}

func (g *merges) fresh() {
	g.group, g.ctx = errgroup.WithContext(g.parent)
	g.group.SetLimit(maxMerges)
}

// start runs do for two happenings, after everything else that concerns one of them.
func (g *merges) start(stays, goes *profile, do func(context.Context) error) error {
	if err := g.await(stays.id, goes.id); err != nil {
		return err
	}
	g.busy[stays.id], g.busy[goes.id] = true, true
	g.profiles.hold(stays, goes)
	ctx := g.ctx
	g.group.Go(panics.Task("feed curation", func() error { return do(ctx) }))
	return nil
}

// await waits if work in flight concerns one of the happenings.
func (g *merges) await(ids ...uuid.UUID) error {
	for _, id := range ids {
		if g.busy[id] {
			return g.wait()
		}
	}
	return nil
}

// wait waits for all.
func (g *merges) wait() error {
	err := g.group.Wait()
	clear(g.busy)
	g.fresh()
	return err
}
