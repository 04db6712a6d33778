package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// syncWithin is how much later than its answer an unsynced append is durable, if no other one takes it along.
const syncWithin = 25 * time.Millisecond

// commit is one batch on its way to the disk, with those who wait for it.
type commit struct {
	batch    *pebble.Batch // nil if all requests were refused
	last     uint64        // position of its last event; 0 if it has none
	requests []*request
	bytes    int
	synced   bool // a request waits for the disk
}

// submit hands a request to the sequencer and waits for the answer.
func (s *Store) submit(ctx context.Context, r *request) (Result, error) {
	if err := s.enqueue(ctx, r); err != nil {
		return Result{}, err
	}
	return s.await(ctx, r)
}

// enqueue hands a request to the sequencer. Requests are decided in the order of their calls.
func (s *Store) enqueue(ctx context.Context, r *request) error {
	if s.options.ReadOnly {
		return ErrReadOnly
	}
	if r.kind != requestErase && s.space.full() {
		return ErrFull
	}
	r.done = make(chan struct{})
	if err := s.queue.put(ctx, r); err != nil {
		return err
	}
	s.sequence()
	return nil
}

// await waits for the answer to a request. If it returns early because ctx is done or the disk is full, the request is
// either withdrawn or, when it was already taken, of unknown outcome (ctx only).
func (s *Store) await(ctx context.Context, r *request) (Result, error) {
	select {
	case <-r.done: // as where others were waited for before
		return r.result, r.err
	default:
	}
	filled := s.space.filled.wait()
	for {
		select {
		case <-r.done:
			return r.result, r.err
		case <-ctx.Done():
			r.taken.CompareAndSwap(false, true)
			return Result{}, ctx.Err()
		case <-s.failed:
			return Result{}, s.failure
		case <-filled:
			if r.taken.CompareAndSwap(false, true) {
				return Result{}, ErrFull
			}
			filled = nil // the batch it is in waits for space
		}
	}
}

// sequence decides about the requests that wait, unless that is being done already. The caller does it while few come
// together: to hand a request to another goroutine and back takes longer than to decide.
func (s *Store) sequence() {
	if !s.queue.filled() || !s.sequencer.TryLock() {
		return // who holds it looks again
	}
	if len(s.sequencer.pipe) < pipelineDepth { // else it would wait for the disk
		s.sequencer.decideAll()
	}
	s.letGo()
}

// letGo lets others decide, and has that done which has come meanwhile.
func (s *Store) letGo() {
	s.sequencer.Unlock()
	if s.queue.filled() {
		go s.sequenceRest()
	}
}

func (s *Store) sequenceRest() {
	for s.queue.filled() && s.sequencer.TryLock() {
		s.sequencer.decideAll()
		s.sequencer.Unlock()
	}
}

// syncRest makes durable what is applied and was not synced with anything else.
func (s *Store) syncRest() {
	s.sequencer.Lock()
	defer s.letGo()
	s.sequencer.timed = false
	if s.sequencer.unsynced == 0 || s.sequencer.ended {
		return
	}
	s.sequencer.synced = true
	if err := s.sequencer.cut(); err != nil {
		s.fail(err)
	}
}

// sequencing is the sequencer's state between two batches. The mutex is held by the goroutine that decides.
type sequencing struct {
	sync.Mutex
	*Store
	*commit
	pipe     chan *commit
	spare    []*request
	created  int64
	key      []byte
	value    []byte
	unsynced uint64      // position of the last event that is applied and in no batch that is synced; 0 if there is none
	timer    *time.Timer // of syncRest
	timed    bool        // it runs
	ended    bool
}

func newSequencing(s *Store) *sequencing {
	q := &sequencing{Store: s, commit: &commit{}, pipe: make(chan *commit, pipelineDepth)}
	q.timer = time.AfterFunc(time.Hour, s.syncRest)
	q.timer.Stop()
	return q
}

// decideAll decides about all requests that wait now.
func (q *sequencing) decideAll() {
	taken := q.queue.take(q.spare)
	for i, r := range taken {
		taken[i] = nil
		if r.taken.CompareAndSwap(false, true) {
			q.handle(r)
		}
	}
	q.spare = taken[:0]
	if err := q.cut(); err != nil {
		q.fail(err)
	}
}

// end makes all durable that was accepted. Nothing may be accepted any more.
func (q *sequencing) end() {
	q.Lock()
	defer q.Unlock()
	q.decideAll()
	if q.synced = q.unsynced > 0; q.synced {
		if err := q.cut(); err != nil {
			q.fail(err)
		}
	}
	q.ended = true
	q.timer.Stop()
	close(q.pipe)
}

// handle decides about one request and adds it to the batch or refuses it. Errors other than refusals stop the store.
func (q *sequencing) handle(r *request) {
	if r.kind != requestErase && q.space.check() {
		r.err = ErrFull
	} else {
		next := q.next
		if r.err = q.decide(r); r.err != nil && q.next != next {
			q.fail(r.err) // half a decision is in the batch
			return
		}
	}
	q.requests = append(q.requests, r)
	q.synced = q.synced || !r.unsynced
	if q.bytes >= maxBatchBytes {
		if err := q.cut(); err != nil {
			q.fail(err)
		}
	}
}

// cut applies the batch built so far, without waiting for the disk, and begins the next one.
func (q *sequencing) cut() error {
	if len(q.requests) == 0 && q.batch == nil && !q.synced {
		return nil
	}
	if err := q.Err(); err != nil {
		return err
	}
	if err := q.endLookups(); err != nil {
		return err
	}
	if err := q.apply(); err != nil {
		return err
	}
	q.requests = slices.DeleteFunc(q.requests, func(r *request) bool {
		if r.unsynced {
			close(r.done)
		}
		return r.unsynced
	})
	if q.synced {
		q.pipe <- q.commit
	}
	q.commit = &commit{}
	q.created = 0
	return nil
}

// apply applies the batch. One that is synced takes along what was applied before it.
func (q *sequencing) apply() error {
	if q.batch == nil && q.synced && q.unsynced > 0 {
		q.batch = q.db.NewBatch()
		if err := q.batch.LogData(nil, nil); err != nil {
			return fmt.Errorf("begin a sync: %w", err)
		}
	}
	if q.batch == nil {
		return nil
	}
	for _, h := range q.heads.dirty {
		q.key = headKey(q.key[:0], h.stream)
		q.value = h.encode(q.value[:0])
		if err := q.batch.Set(q.key, q.value, nil); err != nil {
			return fmt.Errorf("add stream head: %w", err)
		}
	}
	apply := q.db.ApplyNoSyncWait
	if !q.synced {
		apply = q.db.Apply
	}
	write := &pebble.WriteOptions{Sync: q.synced}
	if err := apply(q.batch, write); err != nil {
		return fmt.Errorf("apply batch: %w", err)
	}
	q.heads.applied()
	if q.synced {
		q.last, q.unsynced = max(q.last, q.unsynced), 0
		return nil
	}
	q.unsynced = max(q.last, q.unsynced)
	if !q.timed {
		q.timed = true
		q.timer.Reset(syncWithin)
	}
	return q.batch.Close()
}

// writing returns the batch, and makes it at the first write.
func (q *sequencing) writing() *pebble.Batch {
	if q.batch == nil {
		q.batch = q.db.NewBatch()
	}
	if q.created == 0 {
		q.created = q.options.Now().UnixNano() / nanosPerTick
	}
	return q.batch
}

// stamp returns when the next event is recorded: in whole microseconds, and later than every event before it. So the
// time of recording is a place in the log that a copy of the store keeps, and a search by age can halve its way through
// a stream.
func (q *sequencing) stamp() int64 {
	q.lastCreated = max(q.created, q.lastCreated+ticksPerMicrosecond)
	q.lastCreated -= q.lastCreated % ticksPerMicrosecond
	return q.lastCreated
}

// sync waits for each batch to be durable and answers its requests, until the pipe is closed.
func (s *Store) sync(pipe <-chan *commit) {
	defer s.working.Done()
	for c := range pipe {
		if c.batch != nil {
			if err := s.makeVisible(c); err != nil {
				s.fail(err)
			}
		}
		failure := s.Err()
		for _, r := range c.requests {
			if failure != nil {
				r.err = failure
			}
			close(r.done)
		}
	}
}

// makeVisible makes a batch visible once it is durable.
func (s *Store) makeVisible(c *commit) error {
	if err := errors.Join(c.batch.SyncWait(), s.Err()); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	if err := c.batch.Close(); err != nil {
		return fmt.Errorf("release batch: %w", err)
	}
	if c.last == 0 {
		return nil
	}
	s.said.advance(c.last)
	s.watermark.Store(c.last)
	s.advanced.notify()
	return nil
}

// waitDurable returns once everything up to a position is durable.
func (s *Store) waitDurable(ctx context.Context, position uint64) error {
	for s.watermark.Load() < position {
		s.sequencer.timer.Reset(0) // it may not be on its way to the disk yet
		advanced := s.advanced.wait()
		if s.watermark.Load() >= position {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return ErrClosed
		case <-s.failed:
			return s.failure
		}
	}
	return nil
}

// ticks converts a time to the resolution events are stamped with.
func ticks(t time.Time) int64 { return t.UnixNano() / nanosPerTick }
