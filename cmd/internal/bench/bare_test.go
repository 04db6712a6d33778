//go:build nightly

package bench

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

	"carillon/cmd/internal/dev"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/column"
)

const (
	bareBatch  = 500
	bareAtOnce = 64 // requests at one time
)

// bareRate is the result of the bare senders in this run: deliveries a second by the number of destinations.
var bareRate = map[int]float64{}

// bareSender signs and posts.
type bareSender struct {
	client *http.Client
	secret webhook.Secret
}

func newBareSender(authority *dev.Authority, secret webhook.Secret) bareSender {
	return bareSender{secret: secret, client: &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: authority.Trust(), MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: bareAtOnce,
	}}}
}

func (s bareSender) send(ctx context.Context, id uuid.UUID, url string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	now := time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id.String())
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", webhook.Sign([]webhook.Secret{s.secret}, id.String(), now, body))
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// bareRig is a rig whose receiver trusts one secret at each destination.
func bareRig(b testing.TB, destinations int) (r *rig, secret webhook.Secret) {
	b.Helper()
	r = prepare(b)
	secret = must.Get(webhook.Mint(bytes.NewReader(make([]byte, 64))))(b)
	for i := range destinations {
		r.receiver.trust(i, secret.Reveal())
	}
	r.connect(r.database())
	must.Get(r.pool.Exec(b.Context(), "CREATE TABLE bare (id uuid PRIMARY KEY, body bytea, succeeded boolean)"))(b)
	return r, secret
}

type bareDelivery struct {
	id   uuid.UUID
	body []byte
}

// BenchmarkBare is the yardstick of BenchmarkServedFull, on the same machine in the same run: how fast a program could
// be that inserts deliveries in batches, signs, posts, and updates the outcomes in batches. It has no history, no
// retries, no fairness, and loses what it holds when it is killed.
func BenchmarkBare(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			r, secret := bareRig(b, destinations)
			sender, n := newBareSender(r.authority, secret), size("DELIVERIES", 5000)
			inserted, sent := make(chan bareDelivery, bareBatch), make(chan uuid.UUID, bareBatch)
			began := time.Now()
			go r.insertBare(n, inserted)
			var sending sync.WaitGroup
			for worker := range bareAtOnce {
				sending.Go(func() {
					for d := range inserted {
						url := fmt.Sprint(r.receiver.url, "/", worker%destinations)
						assert.OK(b, sender.send(b.Context(), d.id, url, d.body))
						sent <- d.id
					}
				})
			}
			go func() { sending.Wait(); close(sent) }()
			r.updateBare(sent)
			bareRate[destinations] = float64(n) / time.Since(began).Seconds()
			report(b, "delivered/s", bareRate[destinations])
			r.receiver.reportCame(n)
		})
	}
}

func (r *rig) insertBare(n int, inserted chan<- bareDelivery) {
	defer close(inserted)
	for left := n; left > 0; left -= bareBatch {
		batch := make([]bareDelivery, min(left, bareBatch))
		for i := range batch {
			id := uuid.New()
			batch[i] = bareDelivery{id, event(id, organization)}
		}
		rows := pgx.CopyFromSlice(len(batch), func(i int) ([]any, error) {
			return []any{[16]byte(batch[i].id), batch[i].body}, nil
		})
		if _, err := r.pool.CopyFrom(r.Context(), pgx.Identifier{"bare"}, []string{"id", "body"}, rows); err != nil {
			r.Error(err)
			return
		}
		for _, d := range batch {
			inserted <- d
		}
	}
}

func (r *rig) updateBare(sent <-chan uuid.UUID) {
	var batch []uuid.UUID
	update := func() {
		_, err := r.pool.Exec(r.Context(), "UPDATE bare SET succeeded = true WHERE id = ANY($1)", column.UUIDs(batch))
		assert.True(r, err == nil, "%v", err)
		batch = batch[:0]
	}
	for id := range sent {
		if batch = append(batch, id); len(batch) == bareBatch {
			update()
		}
	}
	update()
}
