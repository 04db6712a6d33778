package store

import (
	"errors"
	"sync/atomic"
)

// headReader reads heads for the sequencer. It goes on using one cursor, because a fresh one has to find its files anew:
// that takes three times as long as the look itself, and each new stream is looked up once.
//
// A cursor sees the database as it was. That is right for as long as whatever was written since is in the cache of heads,
// where it is looked for first; so the cursor is dropped whenever that lets go of some (headCache.settle). It is dropped as
// well when files were made of others (outdate): it would keep those on the disk.
type headReader struct {
	store    *Store
	cursor   *cursor // nil: none is open
	outdated atomic.Bool
}

func (r *headReader) read(stream string) (head, error) {
	if r.cursor == nil {
		opened, err := r.store.newCursor()
		if err != nil {
			return head{}, err
		}
		r.cursor = opened
	}
	h, err := r.cursor.head(stream)
	if err != nil {
		return head{}, errors.Join(err, r.drop())
	}
	return h, nil
}

// drop closes the cursor. Only the sequencer may.
func (r *headReader) drop() error {
	if r.cursor == nil {
		return nil
	}
	dropped := r.cursor
	r.cursor = nil
	return dropped.close()
}

// outdate has the sequencer drop the cursor, also where it has nothing else to do. The database's mutex may be held.
func (r *headReader) outdate() {
	r.outdated.Store(true)
	r.store.queue.poke()
}
