package eventstore

import (
	"context"
	"hash/maphash"
)

// turns makes the writers of one process who met on a stream go one after the other. Where each of many only tried
// again, all but one would load in vain every time. Writers who meet nobody take no turn; streams share turns by hash.
type turns struct {
	seed  maphash.Seed
	taken [64]chan struct{}
}

var writers = newTurns()

func newTurns() *turns {
	t := &turns{seed: maphash.MakeSeed()}
	for i := range t.taken {
		t.taken[i] = make(chan struct{}, 1)
	}
	return t
}

// take waits for a stream's turn, or for the end of the context. The caller gives the turn back by the function.
func (t *turns) take(ctx context.Context, stream string) (giveBack func(), err error) {
	turn := t.taken[maphash.String(t.seed, stream)%uint64(len(t.taken))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
