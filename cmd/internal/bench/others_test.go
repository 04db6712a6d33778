//go:build nightly

package bench

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
)

// alone times steady events of the organization without others beside it, after some that open connections, and returns
// their 99th percentile, and how many deliveries there were.
func (r *rig) alone(rate, n int) (p99 time.Duration, deliveries int) {
	r.steady(rate, n)
	r.receiver.forgetLatencies()
	r.steady(rate, n)
	r.receiver.await(2 * n)
	p99 = r.receiver.reportLatencies("alone-")
	r.receiver.forgetLatencies()
	return p99, 2 * n
}

// besides publishes steady events in rounds until enough of them say that it is over, and returns how many.
func (r *rig) besides(rate, round int, over func() bool) (n int) {
	for ; !over(); n += round {
		r.steady(rate, round)
	}
	return n
}

// BenchmarkServedBurst measures how long 50 events a second of one organization take to their receiver while others
// publish DELIVERIES, each of them in one NDJSON body, until the bodies are taken and for 4 s after that; as a multiple
// of their time alone.
func BenchmarkServedBurst(b *testing.B) {
	for _, others := range []int{1, 2} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			r, each := newRig(b, 1), size("DELIVERIES", 5000)/others
			bodies := make([]*bytes.Buffer, others)
			for i := range bodies {
				theirs, key := r.tenant()
				url := fmt.Sprint(r.receiver.url, "/", 1+i)
				r.receiver.trust(1+i, r.destination(key, url, "*").Secrets[0].Secret)
				bodies[i] = events(each, theirs)
			}
			alone, before := r.alone(50, 150)
			used, wait, began := r.cost(), r.profile(4), time.Now()
			taken := make(chan time.Duration, 1)
			go func() {
				var sending sync.WaitGroup
				for _, body := range bodies {
					sending.Go(func() {
						assert.OK(b, r.publish(asNDJSON, body))
					})
				}
				sending.Wait()
				taken <- time.Since(began)
			}()
			var took time.Duration
			n := r.besides(50, 10, func() bool {
				select {
				case took = <-taken:
				default:
				}
				return took > 0 && time.Since(began) > took+4*time.Second
			})
			r.succeeded(before + n + each*others)
			wait()
			report(b, "events/s", float64(each*others)/took.Seconds())
			report(b, "delivered/s", float64(each*others)/time.Since(began).Seconds())
			r.reportOthers(used, each*others+n, alone)
		})
	}
}

// reportOthers reports what the deliveries of all cost, and the latencies of the organization beside the others.
func (r *rig) reportOthers(since cost, deliveries int, alone time.Duration) {
	r.reportCost(since, deliveries, "delivered")
	report(r.TB, "peak-rss-MB", r.resident("VmHWM"))
	reportOfAlone(r.TB, "", r.receiver.reportLatencies(""), alone)
}

// BenchmarkServedLarge measures the most memory that a server takes while an organization publishes LARGE events of 500
// kB for 20 destinations, and for 20 s after that, beside 20 small events a second of another one; and the time of
// those to their receiver, as a multiple of their time alone. The destinations answer after 29 s, or after 1 s.
func BenchmarkServedLarge(b *testing.B) {
	for _, path := range []string{"late", "slow"} {
		b.Run(path, func(b *testing.B) {
			r, large := newRig(b, 1), size("LARGE", 300)
			theirs, key := r.tenant()
			for i := range 20 {
				r.destination(key, fmt.Sprintf("%s/%s/%d", r.receiver.url, path, i), "*")
			}
			alone, before := r.alone(20, 60)
			began, used := time.Now(), r.cost()
			published := make(chan time.Time, 1)
			go func() {
				r.publishLarge(large, theirs)
				published <- time.Now()
			}()
			var ended time.Time
			n := r.besides(20, 20, func() bool {
				select {
				case ended = <-published:
				default:
				}
				return !ended.IsZero() && time.Since(ended) > 20*time.Second
			})
			r.receiver.await(before + n)
			report(b, "events/s", float64(large)/ended.Sub(began).Seconds())
			report(b, "of-that-files-MB", r.resident("RssFile"))
			r.reportOthers(used, n, alone)
		})
	}
}

func (r *rig) publishLarge(n int, organization uuid.UUID) {
	data := fmt.Sprintf(`{"id":"1","title":"%s"}`, strings.Repeat("lorem ipsum ", 500_000/12))
	var publishing sync.WaitGroup
	for worker := range 4 {
		publishing.Go(func() {
			for range (n + worker) / 4 {
				large := fmt.Appendf(nil, `{"id":"%s","type":"news.item.added","source":"/bench","organizationId":"%s","data":%s}`,
					uuid.New(), organization, data)
				assert.OK(r, r.publish(asJSON, bytes.NewReader(large)))
			}
		})
	}
	publishing.Wait()
}
