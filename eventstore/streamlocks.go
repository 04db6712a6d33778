package eventstore

import (
	"context"
	"hash/maphash"
)

// streamLocks serializes the writers of one process that met on a stream. If each of many only retried, all but one
// would load in vain every time. Writers without contention lock nothing; streams share locks by hash.
type streamLocks struct {
	seed  maphash.Seed
	locks [64]chan struct{} // a lock is held while its channel is full
}

var writers = newStreamLocks()

func newStreamLocks() *streamLocks {
	l := &streamLocks{seed: maphash.MakeSeed()}
	for i := range l.locks {
		l.locks[i] = make(chan struct{}, 1)
	}
	return l
}

// lock waits for the lock of a stream, or for the end of the context, whose error it returns.
func (l *streamLocks) lock(ctx context.Context, stream string) (unlock func(), err error) {
	held := l.locks[maphash.String(l.seed, stream)%uint64(len(l.locks))]
	select {
	case held <- struct{}{}:
		return func() { <-held }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
