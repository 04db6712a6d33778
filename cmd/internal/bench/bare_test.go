//go:build nightly

package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/dev"
	"carillon/command/webhook"
	"carillon/projections/column"
)

const (
	bareBatch  = 500
	bareAtOnce = 64                     // requests at one time
	bareRecord = 800                    // bytes of each of the three records
	bareNoting = 250 * time.Millisecond // as long as read models linger
)

// Results of the bare senders in this run: deliveries a second by the number of destinations, and the cost of each in
// µs by the rate.
var bareRate, bareCost = map[int]float64{}, map[int]float64{}

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
func bareRig(b testing.TB, destinations int) (r *rig, secret webhook.Secret, database string) {
	b.Helper()
	r = prepare(b)
	secret, err := webhook.Mint(bytes.NewReader(make([]byte, 64)))
	if err != nil {
		b.Fatal(err)
	}
	for i := range destinations {
		r.receiver.trust(i, secret.Reveal())
	}
	database = r.database()
	r.connect(database)
	if _, err := r.pool.Exec(b.Context(), "CREATE TABLE bare (id uuid PRIMARY KEY, body bytea, succeeded "+
		"boolean)"); err != nil {
		b.Fatal(err)
	}
	return r, secret, database
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
			r, secret, _ := bareRig(b, destinations)
			sender, n := newBareSender(r.authority, secret), size("DELIVERIES", 5000)
			inserted, sent := make(chan bareDelivery, bareBatch), make(chan uuid.UUID, bareBatch)
			began := time.Now()
			go r.insertBare(n, inserted)
			var sending sync.WaitGroup
			for worker := range bareAtOnce {
				sending.Go(func() {
					for d := range inserted {
						url := fmt.Sprint(r.receiver.url, "/", worker%destinations)
						if err := sender.send(b.Context(), d.id, url, d.body); err != nil {
							b.Error(err)
						}
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
		if _, err := r.pool.Exec(r.Context(), "UPDATE bare SET succeeded = true WHERE id = ANY($1)",
			column.UUIDs(batch)); err != nil {
			r.Error(err)
		}
		batch = batch[:0]
	}
	for id := range sent {
		if batch = append(batch, id); len(batch) == bareBatch {
			update()
		}
	}
	update()
}

// BenchmarkBareSteady is the floor of BenchmarkServedSteady, on the same machine in the same run: the cost of a
// delivery in a process that does the indispensable work only. It takes an event by HTTP, syncs a record of it and one
// before it posts over TLS, writes a third that goes to the disk with the next, and inserts the outcomes into Postgres
// four times a second.
func BenchmarkBareSteady(b *testing.B) {
	for _, rate := range steadyRates {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			r, secret, database := bareRig(b, 1)
			r.process = run(b, childRole+"=bare", "CHILD_DATA="+r.dir, "CHILD_DATABASE="+database,
				"CHILD_RECEIVER="+r.receiver.url+"/0", "CHILD_SECRET="+secret.Reveal())
			inserted := func(n int) {
				r.until("all outcomes are in Postgres", func() bool { return r.count("SELECT count(*) FROM bare") >= n })
			}
			bareCost[rate] = r.measureSteady(rate, inserted)
		})
	}
}

// bare is the process of BenchmarkBareSteady.
type bare struct {
	bareSender

	records  *os.File
	receiver string
	pool     *pgxpool.Pool

	mu   sync.Mutex
	sent []uuid.UUID // and not yet in Postgres
}

func bareChild() error {
	app.LimitMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := os.Getenv("CHILD_DATA")
	authority, err := dev.EnsureAuthority(dir)
	if err != nil {
		return err
	}
	secret, err := webhook.ParseSecret(os.Getenv("CHILD_SECRET"))
	if err != nil {
		return err
	}
	s := &bare{bareSender: newBareSender(authority, secret), receiver: os.Getenv("CHILD_RECEIVER")}
	if s.records, err = os.OpenFile(filepath.Join(dir, "records"), os.O_CREATE|os.O_WRONLY|os.O_APPEND,
		0o600); err != nil {
		return err
	}
	config, err := pgxpool.ParseConfig(os.Getenv("CHILD_DATABASE"))
	if err != nil {
		return err
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" // as of read models
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	go s.insert(ctx)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(os.Stdout, listener.Addr(), listener.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { <-ctx.Done(); _ = server.Close() }()
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

// ServeHTTP takes an event: it is on disk when the answer goes out.
func (s *bare) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = s.record(true)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "{}")
	go s.deliver(body)
}

func (s *bare) record(synced bool) error {
	if _, err := s.records.Write(make([]byte, bareRecord)); err != nil || !synced {
		return err
	}
	return syscall.Fdatasync(int(s.records.Fd()))
}

// deliver records that it is about to send, sends, and records the outcome.
func (s *bare) deliver(body []byte) {
	id := uuid.New()
	err := s.record(true)
	if err == nil {
		err = s.send(context.Background(), id, s.receiver, body)
	}
	if err == nil {
		err = s.record(false)
	}
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, id)
}

// insert writes outcomes to Postgres.
func (s *bare) insert(ctx context.Context) {
	for range time.Tick(bareNoting) {
		s.mu.Lock()
		sent := s.sent
		s.sent = nil
		s.mu.Unlock()
		if _, err := s.pool.Exec(ctx, "INSERT INTO bare SELECT unnest($1::uuid[])", column.UUIDs(sent)); err != nil &&
			ctx.Err() == nil {
			panic(err)
		}
	}
}
