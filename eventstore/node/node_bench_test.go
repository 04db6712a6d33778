package node_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"carillon/eventstore/node"
)

// The figures to compare are events/s, and of-raw: the node's rate as a part of the rate of a bare log file with group
// fdatasync in the same run with as many writers.

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
			rate := float64(b.N*c.events) / took.Seconds()
			raw := rawLog(b, c.clients, c.events)
			b.ReportMetric(rate, "events/s")
			b.ReportMetric(raw, "raw-events/s")
			b.ReportMetric(rate/raw, "of-raw")
			b.ReportMetric(rate/pebbleAlone(b, c.clients, c.events), "of-pebble")
		})
	}
}

const rawSeconds = 0.5

// rawLog is the rate of a log file with group fdatasync: the limit that the disk sets.
func rawLog(b *testing.B, writers, events int) float64 {
	b.Helper()
	file, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	record := make([]byte, events*benchEventBytes)
	return grouped(b, writers, events, func(waiting int) error {
		for range waiting {
			if _, err := file.Write(record); err != nil {
				return err
			}
		}
		return syscall.Fdatasync(int(file.Fd()))
	})
}

// pebbleAlone is the rate of the storage engine with the keys that the node writes, and nothing around it.
func pebbleAlone(b *testing.B, writers, events int) float64 {
	b.Helper()
	db, err := pebble.Open(b.TempDir(), &pebble.Options{MemTableSize: 16 << 20, Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	record := make([]byte, benchEventBytes)
	position := uint64(0)
	return grouped(b, writers, events, func(waiting int) error {
		batch := db.NewBatch()
		for range waiting * events {
			position++
			key := binary.BigEndian.AppendUint64([]byte{'l'}, position)
			if err := batch.Set(key, record, nil); err != nil {
				return err
			}
			key[0] = 'i'
			if err := batch.Set(append(key, make([]byte, 8)...), record[:24], nil); err != nil {
				return err
			}
			key[0] = 'h'
			if err := batch.Set(append(key, "bench-"...), record[:32], nil); err != nil {
				return err
			}
		}
		return batch.Commit(pebble.Sync)
	})
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
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

// grouped lets writers wait for each other's commits for a short while, and returns events per second.
func grouped(b *testing.B, writers, events int, commit func(waiting int) error) float64 {
	b.Helper()
	queue := make(chan chan struct{}, writers)
	go func() {
		var group []chan struct{}
		for first := range queue {
			group = append(group[:0], first)
			for len(queue) > 0 {
				group = append(group, <-queue)
			}
			if err := commit(len(group)); err != nil {
				b.Error(err)
			}
			for _, done := range group {
				done <- struct{}{}
			}
		}
	}()
	var total atomic.Int64
	var working sync.WaitGroup
	began := time.Now()
	for range writers {
		working.Go(func() {
			done := make(chan struct{}, 1)
			for time.Since(began).Seconds() < rawSeconds {
				queue <- done
				<-done
				total.Add(int64(events))
			}
		})
	}
	working.Wait()
	took := time.Since(began)
	close(queue)
	return float64(total.Load()) / took.Seconds()
}

// fill appends many events in few calls.
func fill(b *testing.B, client *esdb.Client, streams, eventsEach int) {
	b.Helper()
	concurrently(b, 16, streams, func(_, call int) error {
		_, err := client.AppendToStream(context.Background(), fmt.Sprintf("filled-%d", call),
			esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, benchEvents(eventsEach)...)
		return err
	})
}

func BenchmarkCatchUp(b *testing.B) {
	const total = 200_000
	s := serve(b, node.Config{})
	client := s.client(b)
	fill(b, client, total/100, 100)
	for name, options := range map[string]esdb.SubscribeToAllOptions{
		"all": {From: esdb.Start{}},
		"filtered": {
			From:   esdb.Start{},
			Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"filled-1"}},
		},
	} {
		b.Run(name, func(b *testing.B) {
			used := cpuTime(b)
			for b.Loop() {
				subscription, err := client.SubscribeToAll(context.Background(), options)
				if err != nil {
					b.Fatal(err)
				}
				for live := false; !live; {
					live = subscription.Recv().CaughtUp != nil
				}
				_ = subscription.Close()
			}
			used = cpuTime(b) - used
			b.ReportMetric(float64(used.Microseconds())/float64(total*b.N), "cpu-µs/event")
			b.ReportMetric(float64(total*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkReadStreamOfTen(b *testing.B) {
	const streams = 10_000
	client := serve(b, node.Config{}).client(b)
	fill(b, client, streams, 10)
	for _, readers := range []int{1, 16} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			used := cpuTime(b)
			took := concurrently(b, readers, b.N, func(_, call int) error {
				list, err := readStream(client, fmt.Sprintf("filled-%d", call*7919%streams),
					esdb.ReadStreamOptions{From: esdb.Start{}}, 100)
				if err == nil && len(list) != 10 {
					err = fmt.Errorf("%d events", len(list))
				}
				return err
			})
			used = cpuTime(b) - used
			b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-µs/stream")
			b.ReportMetric(float64(b.N)/took.Seconds(), "streams/s")
		})
	}
}
