package node_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

func TestSubscribersThatDoNotReadHoldNobodyUp(t *testing.T) { //nolint:paralleltest // it measures the heap
	s := serve(t, node.Config{})
	slow, client := s.client(t), s.client(t)
	const stalled, written, size = 20, 300, 200 << 10
	for range stalled {
		subscribeAll(t, slow, esdb.SubscribeToAllOptions{From: esdb.Start{}}) // and never calls Recv
	}
	before := heap()
	data := strings.Repeat("x", size)
	for i := range written {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, event("big", data))
	}
	// 60 MB went by; twenty stalled connections may hold only windows and pages.
	if grown := heap() - before; grown > 120<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	list := readAll(t, client, esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, 1)
	if len(list) != 1 || list[0].Event.StreamID != fmt.Sprintf("s-%d", written-1) {
		t.Errorf("last event %+v", list)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
