package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/webhook"
	"carillon/projections/column"
)

const (
	bareBatch  = 500
	bareAtOnce = 64 // requests at one time
)

// bareDelivery is a delivery of a program that knows nothing but to send it.
type bareDelivery struct {
	id          uuid.UUID
	destination int
	body        []byte
}

// bareRate is what BenchmarkBare has reached in this run, by the number of destinations: deliveries a second.
var bareRate = map[int]float64{}

// BenchmarkBare is the yardstick of BenchmarkDelivery, on the same machine in the same run: how fast a program could be
// that inserts deliveries in batches, signs, posts, and notes the outcomes in batches. It has no history, no retries,
// no fairness, and loses what it holds when it is killed.
func BenchmarkBare(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			r := newRig(b, destinations)
			pool := r.app.Queries.Pool
			if _, err := pool.Exec(b.Context(), "CREATE TABLE bare (id uuid PRIMARY KEY, body bytea NOT NULL, succeeded boolean)"); err != nil {
				b.Fatal(err)
			}
			inserted, sent := make(chan bareDelivery, bareBatch), make(chan uuid.UUID, bareBatch)
			b.ResetTimer()
			started, used := time.Now(), r.measure()
			go r.insertBare(b.Context(), inserted)
			var sending sync.WaitGroup
			client := &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: r.trusted, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: bareAtOnce,
			}}
			for range bareAtOnce {
				sending.Go(func() {
					for d := range inserted {
						r.sendBare(b.Context(), client, d)
						sent <- d.id
					}
				})
			}
			go func() { sending.Wait(); close(sent) }()
			r.noteBare(b.Context(), sent)
			took := time.Since(started)
			b.StopTimer()
			used.report(b.N * destinations)
			bareRate[destinations] = float64(b.N*destinations) / took.Seconds()
			b.ReportMetric(bareRate[destinations], "delivered/s")
			r.receiver.report(b.N * destinations)
		})
	}
}

func (r *rig) insertBare(ctx context.Context, inserted chan<- bareDelivery) {
	defer close(inserted)
	var batch []bareDelivery
	for n := range r.N * len(r.secrets) {
		id := uuid.New()
		envelope := fmt.Sprintf(`{"id":"%s","source":"/bench","specversion":"1.0","type":"news.item.added","subject":"item/7","data":%s}`, id, payload)
		batch = append(batch, bareDelivery{id: id, destination: n % len(r.secrets), body: []byte(envelope)})
		if len(batch) < bareBatch && n < r.N*len(r.secrets)-1 {
			continue
		}
		rows := pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) { return []any{[16]byte(batch[i].id), batch[i].body}, nil })
		if _, err := r.app.Queries.Pool.CopyFrom(ctx, pgx.Identifier{"bare"}, []string{"id", "body"}, rows); err != nil {
			r.Errorf("insert: %v", err)
			return
		}
		for _, d := range batch {
			inserted <- d
		}
		batch = batch[:0]
	}
}

func (r *rig) sendBare(ctx context.Context, client *http.Client, d bareDelivery) {
	url := r.receiver.url + "/" + strconv.Itoa(d.destination)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(d.body))
	if err != nil {
		r.Errorf("post: %v", err)
		return
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("webhook-id", d.id.String())
	request.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("webhook-signature", webhook.Sign(r.secrets[d.destination:d.destination+1], d.id.String(), now, d.body))
	response, err := client.Do(request)
	if err != nil {
		r.Errorf("post: %v", err)
		return
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

func (r *rig) noteBare(ctx context.Context, sent <-chan uuid.UUID) {
	var batch []uuid.UUID
	note := func() {
		if _, err := r.app.Queries.Pool.Exec(ctx, "UPDATE bare SET succeeded = true WHERE id = ANY($1)", column.UUIDs(batch)); err != nil {
			r.Errorf("note: %v", err)
		}
		batch = batch[:0]
	}
	for id := range sent {
		if batch = append(batch, id); len(batch) == bareBatch {
			note()
		}
	}
	note()
}
