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
		defer cancel()
		wanted := true
		err = s.receive(ctx, after, filter, func(step eventstore.Message) bool {
			wanted = yield(step, nil)
			return wanted
		})
		if wanted {
			yield(eventstore.Message{}, err)
		}
	}
}

// receive yields the steps of a subscription in order, until yield returns false or with an error. What the subscriber has
// yet to take waits in gRPC's window.
func (s *Store) receive(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter, yield func(eventstore.Message) bool,
) error {
	for {
		came, err := s.receiveOnce(ctx, &after, filter, yield)
		switch {
		case err == nil: // the subscriber has seen enough
			return nil
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
	ctx context.Context, after *eventstore.Position, filter eventstore.Filter, yield func(eventstore.Message) bool,
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
		if !yield(step) {
			return came, nil
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
