package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"

	"carillon/eventstore"
)

const (
	searchWindow       = 512 // events the server looks at between two chances of a checkpoint
	checkpointInterval = 8   // windows between two checkpoints
	// notSystem is the regular expression for the types of all events but the store's own.
	notSystem = `^[^\$].*`
)

func serverFilter(filter eventstore.Filter) *streams.ReadReq_Options_Filter {
	options := &streams.ReadReq_Options_FilterOptions{
		Window:                       &streams.ReadReq_Options_FilterOptions_Max{Max: searchWindow},
		CheckpointIntervalMultiplier: checkpointInterval,
		Filter: &streams.ReadReq_Options_FilterOptions_EventType{
			EventType: &streams.ReadReq_Options_FilterOptions_Expression{Regex: notSystem},
		},
	}
	if len(filter.Prefixes) > 0 {
		options.Filter = &streams.ReadReq_Options_FilterOptions_StreamIdentifier{
			StreamIdentifier: &streams.ReadReq_Options_FilterOptions_Expression{Prefix: filter.Prefixes},
		}
	}
	return &streams.ReadReq_Options_Filter{Filter: options}
}

// Subscribe implements eventstore.Store. If a server drops the subscription because of a burst, it subscribes again,
// after the last event that came. Events that the subscriber has yet to take wait in gRPC's window.
func (s *Store) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		ctx, end, err := s.begin(ctx)
		if err != nil {
			yield(eventstore.Message{}, err)
			return
		}
		defer end()
		for {
			before := after
			err := s.receive(ctx, &after, filter, func(step eventstore.Message) bool { return yield(step, nil) })
			switch {
			case err == nil: // the subscriber has seen enough
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			case tooSlow(err):
				s.resubscribed.Add(1)
				s.log.Debug("event store dropped a subscription, subscribing again", "after", after.String())
				if after == before { // as if it dropped all it is given
					pause(ctx, searchPause)
				}
				continue
			}
			yield(eventstore.Message{}, translate(err))
			return
		}
	}
}

// tooSlow reports whether a server gave up on a subscriber who did not read as fast as others wrote.
func tooSlow(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.code == codes.Aborted && strings.Contains(strings.ToLower(r.message), "too slow")
}

// receive yields the steps of one subscription in order, until yield returns false, which is no error. after is the
// position that it has reached.
func (s *Store) receive(
	ctx context.Context, after *eventstore.Position, filter eventstore.Filter, yield func(eventstore.Message) bool,
) error {
	l, err := s.connected(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := ofAll(fromPosition(*after), streams.ReadReq_Options_Forwards, 0)
	options.FilterOption = serverFilter(filter)
	endless := &streams.ReadReq_Options_SubscriptionOptions{}
	options.CountOption = &streams.ReadReq_Options_Subscription{Subscription: endless}
	call, err := l.streams.Read(ctx, &streams.ReadReq{Options: options})
	if err != nil {
		return refused(err, nil)
	}
	for {
		message, err := call.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: the server ended the subscription", eventstore.ErrUnavailable)
		case err != nil:
			err = ended(call, err)
			if l.lostBy(ctx, err) {
				s.drop(l)
			}
			return err
		}
		l.heard.Add(1)
		step, known := stepOf(message)
		if !known || !step.CaughtUp && !after.Before(step.Position) {
			continue // servers send checkpoints that are behind what was asked for, 0/0 among them
		}
		if !step.CaughtUp {
			*after = step.Position
		}
		if !yield(step) {
			return nil
		}
	}
}

// stepOf translates one step of a subscription; known is false for steps that the program does not need.
func stepOf(message *streams.ReadResp) (step eventstore.Message, known bool) {
	switch content := message.GetContent().(type) {
	case *streams.ReadResp_Event:
		event := content.Event.GetEvent()
		if event == nil {
			return step, false
		}
		entry := entryOf(event)
		if entry.Type == eventstore.Filler || strings.HasPrefix(entry.Type, "$") { // such as the tombstone of a stream
			return eventstore.Message{Position: entry.Position}, true
		}
		return eventstore.Message{Event: &entry.Recorded, Position: entry.Position}, true
	case *streams.ReadResp_Checkpoint_:
		return eventstore.Message{Position: positionOf(content.Checkpoint)}, true
	case *streams.ReadResp_CaughtUp_:
		return eventstore.Message{CaughtUp: true}, true
	}
	return step, false
}
