package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
)

// benchEvents sets the number of events that BenchmarkOpen opens a store with.
const benchEvents = "CARILLON_BENCH_EVENTS"

// BenchmarkOpen opens a store that was closed properly, and one with a log to replay as after a crash.
func BenchmarkOpen(b *testing.B) {
	total := 300_000
	if value, err := strconv.Atoi(os.Getenv(benchEvents)); err == nil {
		total = value
	}
	dir := b.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	var filling errgroup.Group
	filling.SetLimit(8)
	const each = 100
	for i := range total / each {
		filling.Go(func() error {
			stream := fmt.Sprintf("stream-%d", i%(total/1000))
			_, err := s.Append(context.Background(), stream, Any(), propose(stream, each, 500))
			return err
		})
	}
	if err := filling.Wait(); err != nil {
		b.Fatal(err)
	}
	crashed := filepath.Join(b.TempDir(), "crashed")
	if err := s.Backup(context.Background(), crashed); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("closed", func(b *testing.B) {
		for b.Loop() {
			if s, err = Open(Options{Dir: dir}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("crashed", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			copied := filepath.Join(b.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(crashed)); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			if s, err = Open(Options{Dir: copied}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}
