package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"

	"carillon/eventstore"
)

const (
	searchWindow       = 512 // events the server looks at between two chances of a checkpoint
	checkpointInterval = 8   // windows between two checkpoints

	// Steps that have come and wait for the subscriber. Real servers give up on one that lets a few events of a burst
	// wait on their side, so they are taken off the wire whether it has time or not.
	maxWaiting      = 8192
	maxWaitingBytes = 8 << 20
)

// notSystem is the regular expression for the types of all events but the store's own.
const notSystem = `^[^\$].*`

func serverFilter(filter eventstore.Filter) *streams.ReadReq_Options_Filter {
	options := &streams.ReadReq_Options_FilterOptions{
		Window:                       &streams.ReadReq_Options_FilterOptions_Max{Max: searchWindow},
		CheckpointIntervalMultiplier: checkpointInterval,
	}
	if len(filter.Prefixes) > 0 {
		options.Filter = &streams.ReadReq_Options_FilterOptions_StreamIdentifier{
			StreamIdentifier: &streams.ReadReq_Options_FilterOptions_Expression{Prefix: filter.Prefixes},
		}
	} else {
		options.Filter = &streams.ReadReq_Options_FilterOptions_EventType{
			EventType: &streams.ReadReq_Options_FilterOptions_Expression{Regex: notSystem},
		}
	}
	return &streams.ReadReq_Options_Filter{Filter: options}
}

// Subscribe implements eventstore.Store. A server that drops the subscription because of a burst is subscribed to
// again, after the last event that came.
func (s *Store) Subscribe(ctx context.Context, after eventstore.Position, filter eventstore.Filter) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		ctx, end, err := s.begin(ctx, 0)
		if err != nil {
			yield(eventstore.Message{}, err)
			return
		}
		defer end()
		ctx, cancel := context.WithCancel(ctx)
		arrived := newInbox(maxWaiting, maxWaitingBytes)
		read := make(chan struct{})
		go func() {
			defer close(read)
			arrived.end(s.receive(ctx, after, filter, func(step eventstore.Message) error { return arrived.put(ctx, step) }))
		}()
		defer func() { // nothing is left behind that still reads
			cancel()
			<-read
		}()
		for {
			steps, err := arrived.take(ctx)
			for _, step := range steps {
				if !yield(step, nil) {
					return
				}
			}
			if err != nil {
				yield(eventstore.Message{}, err)
				return
			}
		}
	}
}

// receive gives the steps of a subscription to put, in order. It ends with an error only, which may be that of put.
func (s *Store) receive(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter, put func(eventstore.Message) error,
) error {
	for {
		came, err := s.receiveOnce(ctx, &after, filter, put)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, ctx.Err())
		case !tooSlow(err):
			return err
		}
		s.resubscribed.Add(1)
		s.log.Debug("the event store dropped a subscription that a burst was too much for, subscribing again", "after", after.String())
		if !came { // as if it dropped all it is given
			pause(ctx, searchPause)
		}
	}
}

// tooSlow reports whether a server gave up on a subscriber who did not read as fast as others wrote.
func tooSlow(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == codes.Aborted && strings.Contains(strings.ToLower(r.message), "too slow")
}

func (s *Store) receiveOnce(
	ctx context.Context, after *eventstore.Position, filter eventstore.Filter, put func(eventstore.Message) error,
) (came bool, err error) {
	l, err := s.connected(ctx)
	if err != nil {
		return false, err
	}
	call, err := l.streams.Read(ctx, &streams.ReadReq{Options: asked(&streams.ReadReq_Options{
		StreamOption: ofAll(*after), FilterOption: serverFilter(filter),
		CountOption: &streams.ReadReq_Options_Subscription{Subscription: &streams.ReadReq_Options_SubscriptionOptions{}},
	})})
	if err != nil {
		return false, translate(refused(err, nil))
	}
	for {
		message, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return came, fmt.Errorf("%w: the server ended the subscription", eventstore.ErrUnavailable)
		}
		if err != nil {
			if l.lostBy(ctx, ended(call, err)) {
				s.drop(l)
			}
			return came, translate(ended(call, err))
		}
		l.heard.Add(1)
		step, known := stepOf(message)
		if !known || !step.CaughtUp && !after.Before(step.Position) {
			continue // servers send checkpoints that are behind what was asked for, 0/0 among them
		}
		if !step.CaughtUp {
			*after = step.Position
		}
		came = true
		if err := put(step); err != nil {
			return came, err
		}
	}
}

// stepOf translates one step of a subscription; known is false for what the program does not need.
func stepOf(message *streams.ReadResp) (step eventstore.Message, known bool) {
	if event := message.GetEvent().GetEvent(); event != nil {
		entry := entryOf(event)
		if entry.Type == eventstore.Filler {
			return eventstore.Message{Position: entry.Position}, true
		}
		return eventstore.Message{Event: &entry.Recorded, Position: entry.Position}, true
	}
	switch content := message.GetContent().(type) {
	case *streams.ReadResp_Checkpoint_:
		return eventstore.Message{Position: eventstore.Position{
			Commit: content.Checkpoint.GetCommitPosition(), Prepare: content.Checkpoint.GetPreparePosition(),
		}}, true
	case *streams.ReadResp_CaughtUp_:
		return eventstore.Message{CaughtUp: true}, true
	}
	return step, false
}

// inbox is what lies between the wire and the subscriber.
type inbox struct {
	arrived chan struct{} // there is something to take
	room    chan struct{} // there is room again

	most, mostBytes int // that may wait; one step may go beyond

	mu    sync.Mutex
	steps []eventstore.Message
	spare []eventstore.Message // what the subscriber has done with
	bytes int
	err   error // comes after the steps
}

func newInbox(most, mostBytes int) *inbox {
	return &inbox{arrived: make(chan struct{}, 1), room: make(chan struct{}, 1), most: most, mostBytes: mostBytes}
}

func weight(step eventstore.Message) int {
	if step.Event == nil {
		return 0
	}
	return len(step.Event.Data) + len(step.Event.Metadata)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is about to look
	}
}

// put waits for room.
func (i *inbox) put(ctx context.Context, step eventstore.Message) error {
	for {
		i.mu.Lock()
		if len(i.steps) == 0 || len(i.steps) < i.most && i.bytes+weight(step) <= i.mostBytes {
			i.steps = append(i.steps, step)
			i.bytes += weight(step)
			i.mu.Unlock()
			signal(i.arrived)
			return nil
		}
		i.mu.Unlock()
		select {
		case <-i.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take waits for something, and gives all there is. It is valid until the next call.
func (i *inbox) take(ctx context.Context) ([]eventstore.Message, error) {
	for {
		i.mu.Lock()
		if len(i.steps) > 0 || i.err != nil {
			clear(i.spare)
			steps := i.steps
			i.steps, i.spare, i.bytes = i.spare[:0], steps, 0
			err := i.err
			i.mu.Unlock()
			signal(i.room)
			return steps, err
		}
		i.mu.Unlock()
		select {
		case <-i.arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, ctx.Err())
		}
	}
}

func (i *inbox) end(err error) {
	i.mu.Lock()
	i.err = err
	i.mu.Unlock()
	signal(i.arrived)
}
