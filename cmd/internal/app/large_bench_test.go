package app_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// BenchmarkServedLarge: the most memory that a server takes while an organization publishes so many events of 500 kB for
// 20 destinations, and for 20 s after that, beside 20 small events a second of another one; and what those take to their
// receiver, as a multiple of what they take alone. Where the destinations hang they answer after 29 s, else after 1 s.
func BenchmarkServedLarge(b *testing.B) {
	for _, path := range []string{"late", "slow"} {
		b.Run(path, func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			o := newOutside(b, 1)
			theirs, key := o.tenant()
			for i := range 20 {
				o.endpoint(key, fmt.Sprintf("%s/%d", path, i))
			}
			o.steady(20, 60)
			o.receiver.forgetLatencies()
			o.steady(20, 60)
			o.receiver.await(b, 120)
			alone := o.receiver.reportLatencies()
			o.receiver.forgetLatencies()
			b.ResetTimer()
			data := fmt.Sprintf(`{"id":"1","title":"%s"}`, strings.Repeat("lorem ipsum ", 500_000/12))
			left := make(chan struct{}, b.N)
			for range b.N {
				left <- struct{}{}
			}
			close(left)
			var publishing sync.WaitGroup
			for range 4 {
				publishing.Go(func() {
					for range left {
						id := uuid.New()
						large := fmt.Appendf(nil, `{"id":"%s","type":"news.item.added","source":"/bench","organizationId":"%s","data":%s}`, id, theirs, data)
						if err := o.send("application/json", bytes.NewReader(large)); err != nil {
							b.Error(err)
						}
					}
				})
			}
			began, n := time.Now(), 0
			published := make(chan time.Duration, 1)
			go func() { publishing.Wait(); published <- time.Since(began) }()
			var ended time.Time
			for ; ended.IsZero() || time.Since(ended) < 20*time.Second; n += 20 {
				o.steady(20, 20)
				select {
				case took := <-published:
					ended = time.Now()
					b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
				default:
				}
			}
			o.receiver.await(b, 120+n)
			b.StopTimer()
			b.ReportMetric(o.resident("VmHWM"), "peak-rss-MB")
			b.ReportMetric(o.resident("RssFile"), "of-that-files-MB")
			reportOfAlone(b, o.receiver.reportLatencies(), alone)
		})
	}
}
