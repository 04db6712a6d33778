package collection

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
)

// profiles are what is known of happenings, of the last that were asked for: at least so many, and not much more than
// twice as many. They are read and changed by one goroutine; what one of them holds is for whoever deals with its
// happening.
type profiles struct {
	enough     int
	young, old map[uuid.UUID]*profile
}

func newProfiles(enough int) *profiles {
	return &profiles{enough: enough, young: map[uuid.UUID]*profile{}}
}

// age forgets those that were not asked for in a while.
func (p *profiles) age() {
	if len(p.young) >= p.enough {
		p.young, p.old = map[uuid.UUID]*profile{}, p.young
	}
}

// get returns what is known of a happening, or nil.
func (p *profiles) get(id uuid.UUID) *profile {
	if found := p.young[id]; found != nil {
		return found
	}
	found := p.old[id]
	if found != nil {
		p.young[id] = found
	}
	return found
}

func (p *profiles) put(id uuid.UUID, known *profile) { p.young[id] = known }

func (p *profiles) forget(id uuid.UUID) {
	delete(p.young, id)
	delete(p.old, id)
}

// merges are merges that are on their way into the store, side by side as far as they concern different happenings. What
// they come to is known once they are waited for.
type merges struct {
	parent context.Context
	ctx    context.Context
	group  *errgroup.Group
	busy   map[uuid.UUID]bool
}

func (m *merging) begin(ctx context.Context) *merges {
	g := &merges{parent: ctx, busy: map[uuid.UUID]bool{}}
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
