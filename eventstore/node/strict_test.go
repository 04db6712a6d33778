package node_test

import (
	"context"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

// Of two streams with one id, one is forgotten.
func TestStrictRemembersOneStreamOfAnID(t *testing.T) {
	t.Parallel()
	client, a := serve(t, node.Config{Quirks: &stricttest.Strict{}}).client(t), event("tested", "{}")
	for _, stream := range []string{"s", "t", "s"} {
		appendTo(t, client, stream, esdb.Any{}, a)
	}
	total := 0
	for _, stream := range []string{"s", "t"} {
		list, err := readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
		if err != nil {
			t.Fatal(err)
		}
		total += len(list)
	}
	if total != 3 {
		t.Errorf("%d events, want 3", total)
	}
}

// TestStrictLeavesRepetitionsUnanswered: of one append, sent again before it is replicated, one is answered.
func TestStrictLeavesRepetitionsUnanswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	strict := &stricttest.Strict{}
	s := serve(t, node.Config{Quirks: strict})
	client, list := s.client(t), events(1)
	strict.StopReplication()
	answers := make(chan error, 2)
	send := func(ctx context.Context) {
		_, err := client.AppendToStream(ctx, "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, list...)
		answers <- err
	}
	until := func(waiting int, repeated int64) {
		for {
			if w, r := strict.Held(); w == waiting && r == repeated {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
		}
	}
	go send(ctx)
	until(1, 0)
	repetition, abort := context.WithCancel(ctx)
	go send(repetition)
	until(1, 1)
	strict.Replicate()
	if err := <-answers; err != nil {
		t.Errorf("the first: %v", err)
	}
	abort()
	if err := <-answers; err == nil {
		t.Error("the second was answered")
	}
}
