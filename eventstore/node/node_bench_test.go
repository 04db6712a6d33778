package node_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"carillon/eventstore/node"
)

const benchEventBytes = 500

func benchEvents(n int) []esdb.EventData {
	list := make([]esdb.EventData, n)
	for i := range list {
		list[i] = esdb.EventData{
			EventID:     uuid.New(),
			EventType:   "benchmarked",
			ContentType: esdb.ContentTypeJson,
			Data:        []byte(strings.Repeat("x", benchEventBytes)),
		}
	}
	return list
}

// concurrently calls work n times in all, from several goroutines.
func concurrently(b *testing.B, writers, n int, work func(writer, call int) error) time.Duration {
	b.Helper()
	var next atomic.Int64
	var working sync.WaitGroup
	began := time.Now()
	for writer := range writers {
		working.Go(func() {
			for {
				call := int(next.Add(1)) - 1
				if call >= n {
					return
				}
				if err := work(writer, call); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	return time.Since(began)
}

func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ clients, events int }{{1, 1}, {16, 1}, {64, 1}, {256, 1}, {64, 10}} {
		b.Run(fmt.Sprintf("clients=%d/events=%d", c.clients, c.events), func(b *testing.B) {
			client := serve(b, node.Config{}).client(b)
			appendTo(b, client, "warm", esdb.Any{}, events(1)...)
			b.ResetTimer()
			used := cpuTime(b)
			took := concurrently(b, c.clients, b.N, func(_, call int) error {
				_, err := client.AppendToStream(context.Background(), fmt.Sprintf("bench-%d", call),
					esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, benchEvents(c.events)...)
				return err
			})
			b.StopTimer()
			used = cpuTime(b) - used
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*c.events), "cpu-µs/event")
			b.ReportMetric(float64(b.N*c.events)/took.Seconds(), "events/s")
		})
	}
}

// cpuTime is the processor time of the process so far, which varies less on a busy machine than elapsed time.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
