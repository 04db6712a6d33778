package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/projections/pgtest"
)

// benchServer is what serve does with embedded defaults, in a process whose memory and start can be measured.
func benchServer() error {
	app.LetNapsBeLate()
	memory := app.TuneMemory()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg := config.Config{
		HTTPAddr: os.Getenv("CHILD_API"), AdminAddr: os.Getenv("CHILD_ADMIN"), DataDir: os.Getenv("CHILD_DATA"),
		Roles:           []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver, config.RoleCollect},
		DeliveryTimeout: 30 * time.Second, DeliveryRetrySchedule: []time.Duration{5 * time.Second}, AutoDisableAfter: 100, AutoDisableMinStreak: time.Hour,
		CollectAllowCIDRs: dev.Loopback, CollectParallel: 64, CollectPages: 500,
		DatabaseURL: config.Address(os.Getenv("CHILD_DATABASE")), Dev: os.Getenv("CHILD_DEV") != "",
	}
	a, err := app.Open(ctx, cfg, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	defer a.Close()
	a.Memory = memory
	go func() { _ = a.Welcome(ctx, io.Discard) }() // as serve does, where it is for developers
	a.Unhurried = os.Getenv("CHILD_UNHURRIED") != ""
	return a.Run(ctx)
}

// served is a process of benchServer.
type served struct {
	testing.TB

	cmd        *exec.Cmd
	api, admin string
	began      time.Time
}

// serve starts the server, with some variables of its environment.
func serve(b testing.TB, dir string, env ...string) *served {
	b.Helper()
	s := &served{TB: b, api: freeAddress(b), admin: freeAddress(b), began: time.Now()}
	s.cmd = exec.Command(os.Args[0]) //nolint:gosec,noctx // this very binary
	s.cmd.Env = append(os.Environ(), childRole+"=bench", "CHILD_DATA="+dir, "CHILD_API="+s.api, "CHILD_ADMIN="+s.admin)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.stop)
	return s
}

func (s *served) stop() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Signal(os.Interrupt)
		_ = s.cmd.Wait()
	}
}

func freeAddress(b testing.TB) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// until polls, as nothing tells from outside.
func (s *served) until(what string, patience time.Duration, holds func() bool) time.Duration {
	s.Helper()
	for time.Since(s.began) < patience {
		if holds() {
			return time.Since(s.began)
		}
		time.Sleep(min(20*time.Millisecond+time.Since(s.began)/10, 5*time.Second)) // to look costs the server something
	}
	s.Fatalf("not within %s: %s", patience, what)
	return 0
}

func (s *served) get(path string) (status int, body string) {
	response, err := http.Get("http://" + s.admin + path) //nolint:noctx // it ends with the benchmark
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

func (s *served) ready() bool {
	status, _ := s.get("/readyz")
	return status == http.StatusOK
}

// caughtUp says that every consumer runs and is at the head.
func (s *served) caughtUp() bool {
	_, text := s.get("/metrics")
	at := map[string]int{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, "{")
		_, value, _ := strings.Cut(rest, "} ")
		if name == "carillon_consumer_running" && value == "1\n" || name == "carillon_consumer_lag_seconds" && value == "0\n" {
			at[name]++
		}
	}
	const processManagers = 4
	all := len(app.ReadModels()) + processManagers
	return at["carillon_consumer_running"] == all && at["carillon_consumer_lag_seconds"] == all
}

// resident is the memory of the process in MB, Postgres apart.
func (s *served) resident(field string) float64 {
	s.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.Skip("no /proc")
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	line, _, _ := strings.Cut(rest, " kB")
	kilobytes, _ := strconv.Atoi(strings.TrimSpace(line))
	return float64(kilobytes) / 1024
}

// processorTime is what the process has had of processors.
func (s *served) processorTime() time.Duration {
	s.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.Skip("no /proc")
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	var used time.Duration
	for _, field := range strings.Fields(rest)[11:13] {
		ticks, _ := strconv.ParseInt(field, 10, 64)
		used += time.Duration(ticks) * pgtest.Tick
	}
	return used
}

// BenchmarkKnown: a server that knows a million happenings (KNOWN: another number), of a thousand sources, a hundred of
// which fill a feed. How long it takes from its process to being ready, and its memory at rest.
func BenchmarkKnown(b *testing.B) {
	known := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("KNOWN")); err == nil {
		known = n
	}
	dir := benchDir(b)
	observeMany(b, dir, known)
	first := serve(b, dir)
	first.until("the read models are built", time.Hour, first.ready)
	took := first.until("everything is taken in", time.Hour, first.caughtUp)
	peak := first.resident("VmHWM")
	first.stop()
	for b.Loop() {
		s := serve(b, dir)
		b.ReportMetric(float64(s.until("ready", time.Minute, s.ready).Milliseconds()), "ready-ms")
		b.ReportMetric(float64(s.until("all consumers run", time.Minute, s.caughtUp).Milliseconds()), "at-work-ms")
		time.Sleep(5 * time.Second) // at rest
		b.ReportMetric(s.resident("VmRSS"), "at-rest-MB")
		b.ReportMetric(s.resident("VmHWM"), "peak-MB")
		s.stop()
	}
	b.ReportMetric(float64(known)/took.Seconds(), "taken-in/s")
	b.ReportMetric(peak, "taking-in-MB")
}

// observeMany records what sources show, in a store that nobody reads yet.
func observeMany(b *testing.B, dir string, known int) {
	b.Helper()
	socket := nodetest.SocketDir(b) + "/s"
	stop := nodetest.Serve(b, dir+"/eventstore", socket)
	defer stop()
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	now := time.Now().UTC().Truncate(time.Microsecond)
	one, sources := uuid.New(), make([]uuid.UUID, 1000)
	shown := []feed.Event{feed.Created{Organization: organization, Settings: feed.Settings{Name: "Bench", Description: "Bench"}, Enabled: true, At: now}}
	for i := range sources {
		sources[i] = uuid.New()
		append1[source.State, source.Event](b, store, source.Aggregate, sources[i],
			source.Registered{Type: source.TypeSite, URL: fmt.Sprintf("https://127.0.0.1:1/%d", i), Timezone: "Europe/Rome", At: now},
			source.CollectionStarted{Number: 1, At: now},
			source.CollectionCompleted{Number: 1, IntervalSeconds: 3600, NextAt: now.Add(100 * time.Hour), At: now})
		if i%10 == 0 {
			shown = append(shown, feed.SourceAttached{AssociationID: uuid.New(), SourceID: sources[i], SourceType: source.TypeSite, At: now})
		}
	}
	next := make(chan int)
	var appending sync.WaitGroup
	for range 256 {
		appending.Go(func() {
			for i := range next {
				id := happening.DeriveID(strconv.Itoa(i))
				append1(b, store, happening.Aggregate, id, happening.Event(happening.Observed{
					SourceID: sources[i%len(sources)], Key: strconv.Itoa(i), Details: announced(i, now), Source: happening.Block{Type: "site"}, At: now,
				}))
			}
		})
	}
	for i := range known {
		next <- i
	}
	close(next)
	appending.Wait()
	append1(b, store, feed.Aggregate, one, shown...)
}

func announced(i int, now time.Time) happening.Details {
	return happening.Details{
		Title: fmt.Sprintf("Concert %d", i), Description: "<p>" + strings.Repeat("An evening of music. ", 20) + "</p>",
		Instances: []happening.Instance{{ID: uuid.New(), Occurrences: []happening.Occurrence{{ID: uuid.New(), Start: now.Add(time.Duration(i%700-200) * time.Hour)}}}},
	}
}

func append1[S, E, C any](b *testing.B, store eventstore.Store, a eventstore.Aggregate[S, E, C], id uuid.UUID, events ...E) {
	proposed := make([]eventstore.Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		if err != nil {
			b.Error(err)
			return
		}
		proposed[i] = eventstore.Proposed{ID: uuid.New(), Type: name, Data: data, Metadata: []byte("{}")}
	}
	if _, err := store.Append(b.Context(), a.Stream(id), eventstore.NoStream, proposed); err != nil {
		b.Error(err)
	}
}
