package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
)

// BenchmarkServedBurst: what 50 events a second of one organization take to their receiver while others publish so many,
// each of them in one NDJSON body, until the bodies are taken and for 4 s after that; as a multiple of what they take alone.
func BenchmarkServedBurst(b *testing.B) {
	for _, others := range []int{1, 2} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			o := newOutside(b, 1)
			bodies := make([]*bytes.Buffer, others)
			for i := range bodies {
				theirs := o.organization(1 + i)
				bodies[i] = &bytes.Buffer{}
				for range b.N / others {
					bodies[i].Write(bytes.Replace(event(uuid.New()), []byte(organization.String()), []byte(theirs.String()), 1))
					bodies[i].WriteByte('\n')
				}
			}
			o.steady(50, 150)
			o.receiver.forgetLatencies()
			o.steady(50, 200)
			o.receiver.await(b, 350)
			alone := o.receiver.reportLatencies()
			o.receiver.forgetLatencies()

			b.ResetTimer()
			before, wait := o.cost(), o.profile(4)
			stop, steady := make(chan struct{}), make(chan int)
			go func() {
				n := 0
				for ; ; n += 10 {
					select {
					case <-stop:
						steady <- n
						return
					default:
						o.steady(50, 10)
					}
				}
			}()
			began := time.Now()
			var sending sync.WaitGroup
			for _, body := range bodies {
				sending.Go(func() {
					if err := o.send("application/x-ndjson", body); err != nil {
						b.Error(err)
					}
				})
			}
			sending.Wait()
			took := time.Since(began)
			o.receiver.reportPart("burst")
			time.Sleep(4 * time.Second) // what the neighbour goes through meanwhile is measured
			close(stop)
			n := <-steady
			o.succeeded(350 + b.N/others*others + n)
			b.StopTimer()
			wait()
			b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "delivered/s")
			o.reportCost("cpu-µs/delivered", before, b.N+n)
			b.ReportMetric(o.resident("VmHWM"), "peak-rss-MB")
			reportOfAlone(b, o.receiver.reportLatencies(), alone)
		})
	}
}

// organization makes another one, with one destination of the receiver.
func (o *outside) organization(destination int) uuid.UUID {
	o.Helper()
	id, key := o.tenant()
	secret := o.endpoint(key, fmt.Sprint(destination))
	if err := o.receiver.trust(destination, secret); err != nil {
		o.Fatal(err)
	}
	return id
}

// tenant makes another organization.
func (o *outside) tenant() (id uuid.UUID, key string) {
	o.Helper()
	var made struct {
		Data struct {
			ID  string `json:"id"`
			Key string `json:"key"`
		} `json:"data"`
	}
	ask := func(path, body string) {
		request, err := http.NewRequestWithContext(o.Context(), http.MethodPost, "http://"+o.admin+path, strings.NewReader(body))
		if err != nil {
			o.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+o.token)
		request.Header.Set("Content-Type", "application/json")
		response, err := o.client.Do(request)
		if err != nil {
			o.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err == nil {
			err = json.Unmarshal(answer, &made)
		}
		if err != nil || response.StatusCode >= http.StatusBadRequest {
			o.Fatalf("%s: %d %s (%v)", path, response.StatusCode, answer, err)
		}
	}
	ask("/admin/organizations", `{"name":"Other"}`)
	id = uuid.MustParse(made.Data.ID)
	ask("/admin/organizations/"+id.String()+"/keys", `{}`)
	return id, made.Data.Key
}

// endpoint makes a destination at a path of the receiver that wants everything.
func (o *outside) endpoint(key, path string) (secret string) {
	o.Helper()
	d, err := post(o.api, key, "/events/destinations", map[string]any{"name": "bench", "config": map[string]any{"url": o.receiver.url + "/" + path}})
	if err == nil {
		_, err = post(o.api, key, "/events/destinations/"+d.ID+"/subscriptions", map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"})
	}
	if err != nil {
		o.Fatal(err)
	}
	return d.Secrets[0].Secret
}

// reportPart tells the latencies so far, as those of a part of the run.
func (c *counter) reportPart(name string) {
	c.mu.Lock()
	took := slices.Clone(c.took)
	c.mu.Unlock()
	slices.Sort(took)
	if len(took) == 0 {
		return
	}
	for q, unit := range map[float64]string{0.5: "p50", 0.99: "p99"} {
		c.ReportMetric(float64(took[int(q*float64(len(took)))].Microseconds())/1000, name+"-"+unit+"-ms")
	}
}
