package eventstore

import (
	"context"
	"hash/maphash"
)

// streamLocks makes the writers of one process who met on a stream go one after the other. Where each of many only tried
// again, all but one would load in vain every time. Writers who meet nobody take no turn; streams share locks by hash.
type streamLocks struct {
	seed  maphash.Seed
	taken [64]chan struct{}
}

var writers = newStreamLocks()

func newStreamLocks() *streamLocks {
	t := &streamLocks{seed: maphash.MakeSeed()}
	for i := range t.taken {
		t.taken[i] = make(chan struct{}, 1)
	}
	return t
}

// take waits for a stream's turn, or for the end of the context. The caller gives the turn back by the function.
func (t *streamLocks) take(ctx context.Context, stream string) (giveBack func(), err error) {
	turn := t.taken[maphash.String(t.seed, stream)%uint64(len(t.taken))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
