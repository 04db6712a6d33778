package node

import (
	"errors"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/quirks"
	"carillon/eventstore/node/internal/store"
)

// scanBudget is how many events a filtered reader looks at before it sends what it has found, and looks whether the
// client is still there.
const scanBudget = 4096

var errClosing = failure(codes.Unavailable, "the node is closing")

func (r *reading) confirm() error {
	return r.call.Send(&streams.ReadResp{Content: &streams.ReadResp_Confirmation{
		Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: uuid.NewString()},
	}})
}

// wait returns when there may be more to read.
func (r *reading) wait(changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-r.call.Context().Done():
		return r.call.Context().Err()
	case <-r.node.store.Closing():
		return errClosing
	case <-r.node.store.Failed():
		return r.node.store.Err()
	}
}

// liveness notifies a subscriber when it has caught up, and when it has fallen behind again: when more arrived at once
// than was sent at once.
type liveness struct{ live bool }

func (l *liveness) caughtUp(r *reading) error {
	if l.live {
		return nil
	}
	l.live = true
	return r.call.Send(&streams.ReadResp{Content: &streams.ReadResp_CaughtUp_{CaughtUp: &streams.ReadResp_CaughtUp{}}})
}

func (l *liveness) fellBehind(r *reading) error {
	if !l.live {
		return nil
	}
	l.live = false
	if r.node.config.Quirks.Any() {
		return nil // caught up will come again, without this
	}
	return r.call.Send(&streams.ReadResp{
		Content: &streams.ReadResp_FellBehind_{FellBehind: &streams.ReadResp_FellBehind{}},
	})
}

// subscribeAll sends the events of $all after a position, then new ones as they come.
func (r *reading) subscribeAll() error {
	unlike := r.node.config.Quirks.Subscription()
	checkpoints, err := newCheckpoints(r.options.GetFilter(), unlike)
	if err != nil {
		return err
	}
	after, invalidPosition := r.allStart(false)
	if invalidPosition != nil && !unlike.ConfirmsFirst {
		return invalidPosition
	}
	if after == math.MaxUint64 || !unlike.AwaitsBeyond {
		after = min(after, r.node.store.Watermark())
	}
	if err := errors.Join(r.confirm(), invalidPosition); err != nil {
		return err
	}
	var live liveness
	for {
		advanced := r.node.store.Advanced()
		sent, end, overrun, err := r.fillAll(after, checkpoints, live.live, unlike.Overrun)
		if err != nil {
			return err
		}
		last := sent.last
		if !live.live && checkpoints != nil && last > 0 {
			checkpoints.caughtUp(&r.page, after, last, end)
		}
		if err := r.page.send(r.call); err != nil {
			return err
		}
		if overrun {
			return unlike.Drop()
		}
		after = last
		if !end || live.live && unlike.Behind > 0 && sent.events > unlike.Behind {
			if err := live.fellBehind(r); err != nil {
				return err
			}
		}
		if !end {
			continue
		}
		if err := live.caughtUp(r); err != nil {
			return err
		}
		if r.node.store.Watermark() > after {
			continue
		}
		if err := r.wait(advanced); err != nil {
			return err
		}
	}
}

// filled is the content that fillAll has put on the page.
type filled struct {
	last   uint64 // position of the last examined record
	events int
}

// fillAll puts the next wanted events and checkpoints on the page.
func (r *reading) fillAll(
	after uint64, checkpoints *checkpoints, live bool, overrunAt int,
) (sent filled, end, overrun bool, err error) {
	var failed error
	budget := scanBudget
	sent.last, end, err = r.node.store.ReadAll(after, func(record store.Record) bool {
		var wanted bool
		if wanted, failed = r.filter.matches(record); failed == nil && wanted {
			sent.events++
			if overrun = live && overrunAt > 0 && sent.events > overrunAt; overrun {
				return false
			}
			failed = r.emit(&record)
		}
		if checkpoints != nil && (live || checkpoints.page == nil) {
			checkpoints.considered(&r.page, record.Position)
		}
		budget--
		return failed == nil && budget > 0 && !r.page.full()
	})
	return sent, end, overrun, errors.Join(err, failed, r.call.Context().Err())
}

// checkpoints sends a filtered subscription its progress, every n events whether matching or not.
type checkpoints struct {
	every uint64
	since uint64
	last  uint64

	page func(began, last uint64, end bool) []*streams.ReadResp // returns those of other servers instead. Optional.
}

// defaultWindow is the client's own, for clients that give none.
const defaultWindow = 32

func newCheckpoints(options *streams.ReadReq_Options_FilterOptions, unlike quirks.Subscription) (*checkpoints, error) {
	if options == nil {
		return nil, nil //nolint:nilnil // unfiltered subscriptions have none
	}
	window := uint64(defaultWindow)
	if limit, ok := options.GetWindow().(*streams.ReadReq_Options_FilterOptions_Max); ok {
		window = uint64(limit.Max)
	}
	every := window * uint64(options.GetCheckpointIntervalMultiplier())
	if every == 0 {
		return nil, invalid("the filter's window and checkpoint interval must be above 0")
	}
	return &checkpoints{every: every, page: unlike.Page}, nil
}

// caughtUp is called after each page before the head: after is its start, last its end.
func (c *checkpoints) caughtUp(page *page, after, last uint64, end bool) {
	switch {
	case c.page != nil:
		for _, checkpoint := range c.page(after, last, end) {
			page.add(checkpoint, 0)
		}
	case end:
		c.reached(page, last)
	}
}

func (c *checkpoints) considered(page *page, position uint64) {
	c.since++
	if c.since >= c.every {
		c.reached(page, position)
	}
}

func (c *checkpoints) reached(page *page, position uint64) {
	c.since = 0
	if position > c.last {
		c.last = position
		page.add(quirks.Checkpoint(position, position), 0)
	}
}

// subscribeStream sends the events of a stream after a revision, then new ones as they come.
func (r *reading) subscribeStream() error {
	stream, err := r.node.store.Stream(r.call.Context(), r.stream)
	if err != nil {
		return err
	}
	next := uint64(0)
	switch option := r.options.GetStream().GetRevisionOption().(type) {
	case *streams.ReadReq_Options_StreamOptions_Revision:
		next = option.Revision + 1
		if option.Revision >= store.MaxRevision {
			next = uint64(stream.Last() + 1) // #nosec G115 -- at least -1
		}
	case *streams.ReadReq_Options_StreamOptions_End:
		next = uint64(stream.Last() + 1) // #nosec G115 -- at least -1
	}
	if stream.Tombstoned() {
		return streamDeleted(r.stream)
	}
	if err := r.confirm(); err != nil {
		return err
	}
	var live liveness
	missing := r.node.config.Quirks.Any() && stream.Last() < 0 // such a stream is caught up with after its first event
	for {
		advanced := r.node.store.Advanced()
		var ended bool
		began := next
		if next, ended, err = r.fillStream(next); err != nil {
			return err
		}
		more := r.page.full()
		if err := r.page.send(r.call); err != nil {
			return err
		}
		if ended {
			return streamDeleted(r.stream)
		}
		if more {
			if err := live.fellBehind(r); err != nil {
				return err
			}
			continue
		}
		if missing = missing && next == began; !missing {
			if err := live.caughtUp(r); err != nil {
				return err
			}
		}
		if err := r.wait(advanced); err != nil {
			return err
		}
	}
}

// fillStream puts the next readable events on the page, and returns the revision to go on from. The last event of a
// stream that has ended is its tombstone.
func (r *reading) fillStream(next uint64) (goOn uint64, ended bool, err error) {
	var failed error
	stream, err := r.node.store.Read(r.call.Context(), r.stream, next, store.Forwards, func(record store.Record) bool {
		failed = r.emit(&record)
		next = record.Revision() + 1
		return failed == nil && !r.page.full()
	})
	if err = errors.Join(err, failed); err != nil || !stream.Tombstoned() {
		return next, false, err
	}
	tombstone, err := r.node.store.TombstoneOf(stream)
	switch {
	case errors.Is(err, store.ErrNotFound): // a stream of metadata has no end of its own
		return next, true, nil
	case err == nil:
		err = r.emit(&tombstone)
	}
	return next, true, err
}
