package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore"
)

const (
	searchWindow       = 512 // events the server looks at between two chances of a checkpoint
	checkpointInterval = 8   // windows between two checkpoints
)

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed) (eventstore.Appended, error) {
	data := make([]esdb.EventData, len(events))
	for i, e := range events {
		data[i] = esdb.EventData{EventID: e.ID, EventType: e.Type, ContentType: esdb.ContentTypeJson, Data: e.Data, Metadata: e.Metadata}
	}
	return s.append(ctx, stream, expected, data)
}

func (s *Store) append(ctx context.Context, stream string, expected eventstore.Revision, data []esdb.EventData) (eventstore.Appended, error) {
	var revision esdb.ExpectedRevision = esdb.NoStream{}
	if expected >= 0 {
		revision = esdb.Revision(uint64(expected))
	}
	result, err := call(ctx, s, func(ctx context.Context) (*esdb.WriteResult, error) {
		return s.client.AppendToStream(ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: revision}, data...)
	})
	var clientErr *esdb.Error
	if errors.As(err, &clientErr) && clientErr.IsErrorCode(esdb.ErrorCodeWrongExpectedVersion) {
		return eventstore.Appended{}, &eventstore.WrongRevisionError{Stream: stream, Expected: expected}
	}
	if err != nil {
		return eventstore.Appended{}, translate(err)
	}
	return eventstore.Appended{
		Revision: eventstore.Revision(result.NextExpectedVersion), //nolint:gosec // revisions fit an int64 by protocol
		Position: eventstore.Position{Commit: result.CommitPosition, Prepare: result.PreparePosition},
	}, nil
}

// Read implements eventstore.Store.
func (s *Store) Read(ctx context.Context, stream string, from eventstore.Revision) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		ctx, end, err := s.begin(ctx)
		if err != nil {
			yield(eventstore.Recorded{}, err)
			return
		}
		defer end()
		events, err := start(ctx, s, func() (*esdb.ReadStream, error) {
			return s.client.ReadStream(ctx, stream, esdb.ReadStreamOptions{From: esdb.Revision(uint64(max(from, 0)))}, math.MaxUint64)
		})
		if err != nil {
			yield(eventstore.Recorded{}, translate(err))
			return
		}
		defer events.Close()
		for {
			event, err := events.Recv()
			var clientErr *esdb.Error
			switch {
			case errors.Is(err, io.EOF), errors.As(err, &clientErr) && clientErr.IsErrorCode(esdb.ErrorCodeResourceNotFound):
				return
			case err != nil:
				yield(eventstore.Recorded{}, translate(err))
				return
			}
			if !yield(recorded(event), nil) {
				return
			}
		}
	}
}

// Subscribe implements eventstore.Store.
func (s *Store) Subscribe(ctx context.Context, after eventstore.Position, filter eventstore.Filter) iter.Seq2[eventstore.Message, error] {
	var from esdb.AllPosition = esdb.Start{}
	if after != eventstore.Start {
		from = esdb.Position{Commit: after.Commit, Prepare: after.Prepare}
	}
	serverFilter := esdb.ExcludeSystemEventsFilter()
	if len(filter.Prefixes) > 0 {
		serverFilter = &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: filter.Prefixes}
	}
	return func(yield func(eventstore.Message, error) bool) {
		for step, err := range s.follow(ctx, from, serverFilter) {
			if err != nil {
				yield(eventstore.Message{}, err)
				return
			}
			if message, known := message(step); known && !yield(message, nil) {
				return
			}
		}
	}
}

// follow yields the steps of a subscription. It ends with an error only, or when the caller has seen enough.
func (s *Store) follow(ctx context.Context, from esdb.AllPosition, filter *esdb.SubscriptionFilter) iter.Seq2[*esdb.SubscriptionEvent, error] {
	return func(yield func(*esdb.SubscriptionEvent, error) bool) {
		ctx, end, err := s.begin(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer end()
		sub, err := start(ctx, s, func() (*esdb.Subscription, error) {
			return s.client.SubscribeToAll(ctx, esdb.SubscribeToAllOptions{
				From: from, Filter: filter, MaxSearchWindow: searchWindow, CheckpointInterval: checkpointInterval,
			})
		})
		if err != nil {
			yield(nil, translate(err))
			return
		}
		defer func() { _ = sub.Close() }()
		for {
			step := sub.Recv()
			if step.SubscriptionDropped != nil {
				yield(nil, fmt.Errorf("subscription dropped: %w", translate(step.SubscriptionDropped.Error)))
				return
			}
			if !yield(step, nil) {
				return
			}
		}
	}
}

// message translates one step of a subscription; known is false for what the program does not need.
func message(e *esdb.SubscriptionEvent) (m eventstore.Message, known bool) {
	switch {
	case e.EventAppeared != nil && e.EventAppeared.Event != nil:
		event := recorded(e.EventAppeared)
		return eventstore.Message{Event: &event, Position: event.Position}, true
	case e.CheckPointReached != nil:
		return eventstore.Message{Position: eventstore.Position{Commit: e.CheckPointReached.Commit, Prepare: e.CheckPointReached.Prepare}}, true
	case e.CaughtUp != nil:
		return eventstore.Message{CaughtUp: true}, true
	}
	return m, false
}

// Head implements eventstore.Store.
func (s *Store) Head(ctx context.Context) (eventstore.Position, error) {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return call(callCtx, s, func(ctx context.Context) (eventstore.Position, error) {
		events, err := s.client.ReadAll(ctx, esdb.ReadAllOptions{Direction: esdb.Backwards, From: esdb.End{}}, 1)
		if err != nil {
			return eventstore.Start, translate(err)
		}
		defer events.Close()
		event, err := events.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return eventstore.Start, nil
		case err != nil:
			return eventstore.Start, translate(err)
		}
		return recorded(event).Position, nil
	})
}

func recorded(e *esdb.ResolvedEvent) eventstore.Recorded {
	r := e.Event
	return eventstore.Recorded{
		ID:       r.EventID,
		Stream:   r.StreamID,
		Revision: eventstore.Revision(r.EventNumber), //nolint:gosec // revisions fit an int64 by protocol
		Position: eventstore.Position{Commit: r.Position.Commit, Prepare: r.Position.Prepare},
		Type:     r.EventType,
		Data:     r.Data,
		Metadata: r.UserMetadata,
		Created:  created(r),
	}
}
