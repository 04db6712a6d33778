package collection

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// merges are merges that are on their way into the store, side by side as far as they concern different happenings.
// What they come to is known once they are waited for.
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
	g.group.SetLimit(mergedAtOnce)
}

// of begins something about two happenings, behind all that concerns one of them.
func (g *merges) of(stays, goes *profile, do func(context.Context) error) error {
	if err := g.await(stays.id, goes.id); err != nil {
		return err
	}
	g.busy[stays.id], g.busy[goes.id] = true, true
	g.profiles.hold(stays, goes)
	ctx := g.ctx
	g.group.Go(func() error { return do(ctx) })
	return nil
}

// await waits, where something is on its way that concerns one of the happenings.
func (g *merges) await(ids ...uuid.UUID) error {
	for _, id := range ids {
		if g.busy[id] {
			return g.end()
		}
	}
	return nil
}

// end waits for all.
func (g *merges) end() error {
	err := g.group.Wait()
	clear(g.busy)
	g.fresh()
	return err
}
