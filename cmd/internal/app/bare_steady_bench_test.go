package app_test

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
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/dev"
	"carillon/command/webhook"
	"carillon/projections/column"
	"carillon/projections/pgtest"
)

const (
	bareRecord = 800                    // bytes of each of the three records
	bareNoting = 250 * time.Millisecond // as long as read models linger
)

// bareCost is what a delivery has cost a bareServer in this run, in µs, by the rate.
var bareCost = map[int]float64{}

// BenchmarkBareSteady is the floor of BenchmarkServedSteady, on the same machine in the same run: what a delivery costs a
// process that does what can't be left out and nothing else. It takes an event by HTTP, syncs a record of it and one before
// it posts over TLS, writes a third that goes to the disk with the next, and notes the outcomes in Postgres four times a
// second.
func BenchmarkBareSteady(b *testing.B) {
	for _, rate := range []int{50, 200, 600} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			o, n, begun := newBareOutside(b), min(b.N, 15*rate), 3*rate
			o.steady(rate, begun)
			o.noted(begun)
			o.receiver.forgetLatencies()
			b.ResetTimer()
			before := o.cost()
			o.steady(rate, n)
			o.noted(begun + n)
			b.StopTimer()
			bareCost[rate] = o.reportCosts(before, n)
			o.receiver.report(begun + n)
		})
	}
}

// newBareOutside is an outside whose server is a bareServer.
func newBareOutside(b *testing.B) *outside {
	b.Helper()
	dir, url := benchDir(b), pgtest.URL(b)
	o := &outside{b: b, dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	b.Cleanup(o.client.CloseIdleConnections)
	authority, err := dev.EnsureAuthority(dir)
	if err != nil {
		b.Fatal(err)
	}
	o.receiver = newCounter(b, authority)
	secret, err := webhook.Mint(bytes.NewReader(make([]byte, 64)))
	if err == nil {
		err = o.receiver.trust(0, secret.Reveal())
	}
	if err == nil {
		o.pool, err = pgxpool.New(b.Context(), url)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(o.pool.Close)
	if _, err := o.pool.Exec(b.Context(), "CREATE TABLE bare (id uuid PRIMARY KEY)"); err != nil {
		b.Fatal(err)
	}
	o.postgres = pgtest.UsageOf(b.Context(), b, o.pool)
	o.served = serve(b, dir, childRole+"=bare", "CHILD_DATABASE="+url, "CHILD_RECEIVER="+o.receiver.url+"/0", "CHILD_SECRET="+secret.Reveal())
	o.until("listens", time.Minute, func() bool {
		conn, err := net.Dial("tcp", o.admin)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
	return o
}

// noted waits until Postgres has n outcomes.
func (o *outside) noted(n int) {
	o.b.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var noted int
		if err := o.pool.QueryRow(context.Background(), "SELECT count(*) FROM bare").Scan(&noted); err != nil {
			o.Fatal(err)
		}
		if noted >= n {
			return
		}
	}
	o.Fatalf("not all of %d outcomes were noted", n)
}

// bare is the server of BenchmarkBareSteady.
type bare struct {
	records  *os.File
	client   *http.Client
	receiver string
	secret   webhook.Secret
	pool     *pgxpool.Pool

	mu   sync.Mutex
	sent []uuid.UUID // and yet to be noted
}

func bareServer() error {
	app.TuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := os.Getenv("CHILD_DATA")
	authority, err := dev.EnsureAuthority(dir)
	if err != nil {
		return err
	}
	s := &bare{receiver: os.Getenv("CHILD_RECEIVER"), client: &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authority.Trust(), MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: bareAtOnce,
	}}}
	if s.secret, err = webhook.ParseSecret(os.Getenv("CHILD_SECRET")); err != nil {
		return err
	}
	if s.records, err = os.OpenFile(filepath.Join(dir, "records"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
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
	go s.note(ctx)
	server := &http.Server{Addr: os.Getenv("CHILD_ADMIN"), Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { <-ctx.Done(); _ = server.Close() }()
	if err := server.ListenAndServe(); ctx.Err() == nil {
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
	return syscall.Fdatasync(int(s.records.Fd())) //nolint:gosec // a descriptor
}

// deliver records that it is about to send, sends, and records what came of it.
func (s *bare) deliver(body []byte) {
	if err := s.record(true); err != nil {
		panic(err)
	}
	request, err := http.NewRequest(http.MethodPost, s.receiver, bytes.NewReader(body)) //nolint:noctx // it ends with the process
	if err != nil {
		panic(err)
	}
	id, now := uuid.New(), time.Now()
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", id.String())
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", webhook.Sign([]webhook.Secret{s.secret}, id.String(), now, body))
	response, err := s.client.Do(request)
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	if err := s.record(false); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, id)
}

// note writes outcomes to Postgres.
func (s *bare) note(ctx context.Context) {
	for range time.Tick(bareNoting) {
		s.mu.Lock()
		sent := s.sent
		s.sent = nil
		s.mu.Unlock()
		if len(sent) == 0 {
			continue
		}
		if _, err := s.pool.Exec(ctx, "INSERT INTO bare SELECT unnest($1::uuid[])", column.UUIDs(sent)); err != nil {
			panic(err)
		}
	}
}
