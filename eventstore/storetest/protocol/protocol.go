// Package protocol is the contract of an EventStoreDB server as its clients rely on it, beyond Carillon's own needs
// (package storetest) and recorded conversations (package conversations): paging through $all, filters with
// checkpoints. The embedded node and a real server pass it alike; tests name permitted differences.
package protocol

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// patience bounds every wait for something that must come.
const patience = 2 * time.Minute

// Run runs the contract through a client. It works in new streams, so a server in use will do; it leaves them behind.
func Run(t *testing.T, client *esdb.Client) {
	t.Helper()
	t.Run("all", func(t *testing.T) { all(t, client) })
	t.Run("filters", func(t *testing.T) { filters(t, client) })
	t.Run("a tombstoned stream ends its subscription", func(t *testing.T) { endedSubscription(t, client) })
}

// fixture is one test's view of the server: streams with a unique prefix.
type fixture struct {
	*testing.T
	client *esdb.Client
	prefix string
	ctx    context.Context
}

func begin(t *testing.T, client *esdb.Client) *fixture {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(cancel)
	return &fixture{
		T:      t,
		client: client,
		ctx:    ctx,
		prefix: "protocol" + strings.ReplaceAll(uuid.NewString(), "-", ""),
	}
}

func (f *fixture) stream(name string) string { return f.prefix + "-" + name }

func events(n int) []esdb.EventData {
	list := make([]esdb.EventData, n)
	for i := range list {
		list[i] = event("tested", fmt.Sprintf(`{"n":%d}`, i))
	}
	return list
}

func event(eventType, data string) esdb.EventData {
	return esdb.EventData{
		EventID:     uuid.New(),
		EventType:   eventType,
		ContentType: esdb.ContentTypeJson,
		Data:        []byte(data),
	}
}

func (f *fixture) try(stream string, expected esdb.ExpectedRevision, list []esdb.EventData) (*esdb.WriteResult, error) {
	return f.client.AppendToStream(f.ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: expected}, list...)
}

func (f *fixture) append(stream string, expected esdb.ExpectedRevision, list ...esdb.EventData) *esdb.WriteResult {
	f.Helper()
	result, err := f.try(stream, expected, list)
	if err != nil {
		f.Fatalf("append to %s: %v", stream, err)
	}
	return result
}

func drain(events *esdb.ReadStream) (list []*esdb.ResolvedEvent, err error) {
	defer events.Close()
	for {
		event, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, event)
	}
}

func tombstone(f *fixture, stream string) error {
	_, err := f.client.TombstoneStream(f.ctx, stream, esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}})
	return err
}

func endedSubscription(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	stream := f.stream("s")
	f.append(stream, esdb.NoStream{}, events(1)...)
	subscription := must.Get(client.SubscribeToStream(f.ctx, stream, esdb.SubscribeToStreamOptions{From: esdb.Start{}}))(t)
	defer func() { _ = subscription.Close() }()
	var seen []string
	for {
		switch step := subscription.Recv(); {
		case step.EventAppeared != nil:
			seen = append(seen, step.EventAppeared.Event.EventType)
		case step.CaughtUp != nil:
			must.OK(t, tombstone(f, stream))
		case step.SubscriptionDropped != nil:
			if err := step.SubscriptionDropped.Error; err == nil || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("it ended with %v", err)
			}
			assert.Equal(t, strings.Join(seen, " "), "tested $streamDeleted", "it brought")
			return
		}
	}
}
