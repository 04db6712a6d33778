package app

import (
	"context"
	"crypto/rand"
	"errors"
	"hash/fnv"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/auditors"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

// narrow is a disk with as much room as the test says.
type narrow struct {
	*vfs.MemFS
	free atomic.Uint64 // bytes
}

// GetDiskUsage implements vfs.FS.
func (d *narrow) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.free.Load(), TotalBytes: 1 << 40}, nil
}

// on is an app of which only what the test needs is there: an embedded node on a disk, Postgres, health and metrics.
func on(t *testing.T) (a *servers, disk *narrow, get func(path string) (status int, body string)) {
	t.Helper()
	disk = &narrow{MemFS: vfs.NewMem()}
	disk.free.Store(1 << 40)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store, embedded := nodetest.Open(t, node.Config{Dir: "store", FS: disk, Logger: log})
	pool := projecttest.Pool(t)
	a = serversOn(&stores{store: store, pool: pool, full: embedded.Full}, log)
	a.stores.metrics()
	return a, disk, look(t, a)
}

// look asks for health and metrics.
func look(t *testing.T, a *servers) (get func(path string) (status int, body string)) {
	t.Helper()
	api := adminapi.New(adminapi.Dependencies{
		Ready:   a.ready,
		Metrics: a.Metrics,
		Now:     time.Now,
		Log:     a.log,
	})
	return func(path string) (int, string) {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
		return w.Code, w.Body.String()
	}
}

// serversOn makes servers without anything to serve.
func serversOn(s *stores, log *slog.Logger) *servers {
	s.part = (&process{log: log, Metrics: prometheus.NewRegistry()}).newPart()
	progress := projections.NewProgress(s.pool)
	models := &readModels{
		progress:  progress,
		part:      s.part,
		stores:    s,
		lags:      newLags(s.store, time.Now),
		vacancies: newVacancies(s.pool, log, time.Now, progress.Failing),
	}
	return &servers{part: s.part, stores: s, readModels: models}
}

// A consumer that no process has run yet is missed as one is that no process runs any more: by readiness, metrics and
// the list of consumers.
func TestConsumerThatNeverRanIsMissed(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	status, body := get("/readyz")
	assert.True(t, status == 200, "readyz of a first start: %d %s", status, body)
	a.readModels.vacancies.now = func() time.Time { return time.Now().Add(vacantAfter) }
	status, body = get("/readyz")
	assert.True(t, status == 503, "readyz: %d", status)
	a.Metrics.MustRegister(scraped(a.readModels.readCheckpoints))
	_, metrics := get("/metrics")
	listed := must.Get(newRebuilds(a.readModels).Status(t.Context()))(t)
	for _, c := range consumers() {
		assert.True(t, strings.Contains(body, "projection "+c.name+" (no process runs it)"), "%s is not in %s", c.name, body)
		assert.True(t, strings.Contains(metrics, `carillon_consumer_running{consumer="`+c.name+`"} 0`),
			"%s is not in %s", c.name, metrics)
		assert.True(t, slices.ContainsFunc(listed, func(p adminapi.Projection) bool { return p.Name == c.name }),
			"%s is not in %v", c.name, listed)
	}
}

// A consumer that fails at each start is not one that no process runs.
func TestFailingConsumerIsNotReady(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	must.Get(a.stores.store.Append(t.Context(), "s-1", eventstore.NoStream,
		[]eventstore.Proposed{{ID: uuid.New(), Type: "x", Data: []byte(`{}`)}}))(t)
	broken := auditors.ReadModel
	broken.Filter = eventstore.Filter{}
	broken.Project = func(context.Context, pgx.Tx, []eventstore.Recorded) error {
		return errors.New("disk of tables is full")
	}
	runner := projections.Runner{
		Pool:     a.stores.pool,
		Locks:    pgtest.Locks(t, a.stores.pool),
		Store:    a.stores.store,
		Log:      a.log,
		Progress: a.readModels.progress,
	}
	ended := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { ended <- runner.Project(ctx, broken) }()
	t.Cleanup(func() { end(); must.OK(t, <-ended) })
	must.Eventually(t, "it fails", func() bool { return a.readModels.progress.Failing(broken.Name) != nil })
	_, body := get("/readyz")
	assert.True(t, !strings.Contains(body, "fails"), "readyz of a first failure: %s", body)
	a.readModels.vacancies.now = func() time.Time { return time.Now().Add(vacantAfter) }
	_, body = get("/readyz")
	assert.True(t, strings.Contains(body, "projection auditors (fails at each start, see the log)"), "readyz: %s", body)
}

// Waiting does not help with a password that the event store refuses, so the answer names the cause.
func TestRefusedPasswordIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("the client of the store looks for a leader for seconds, at each of several calls")
	}
	t.Parallel()
	tls := httptest.NewTLSServer(nil) // for its certificate
	tls.Close()
	address := nodetest.Listen(t, node.Config{
		Dir:      "store",
		FS:       vfs.NewMem(),
		TLS:      tls.TLS,
		User:     "admin",
		Password: "right",
	})
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	store := must.Get(esdb.Open("esdb://admin:s3cret@"+address+"?tlsVerifyCert=false", log))(t)
	t.Cleanup(func() { _ = store.Close() })
	get := look(t, serversOn(&stores{store: store, pool: projecttest.Pool(t)}, log))
	const refused = "eventStore (refuses the credentials, or its certificate is not trusted)"
	status, body := get("/readyz")
	for tries := 1; tries < 10 && !strings.Contains(body, refused); tries++ { // on a busy machine a look can take longer
		status, body = get("/readyz")
	}
	assert.True(t, status == 503 && strings.Contains(body, refused), "readyz: %d %s", status, body)
	written := httptest.NewRecorder()
	_, err := store.Append(t.Context(), "s-"+uuid.NewString(), eventstore.NoStream, []eventstore.Proposed{{
		ID:   uuid.New(),
		Type: "x",
		Data: []byte(`{}`),
	}})
	wire.Feeds.WriteError(written, httptest.NewRequestWithContext(t.Context(), "POST", "/feeds", nil), err)
	if body := written.Body.String(); written.Code != 503 ||
		!strings.Contains(body, "refuses this server's credentials") || strings.Contains(body, "s3cret") {
		t.Errorf("a write: %d %s", written.Code, body)
	}
}

func TestFullDiskIsNotReady(t *testing.T) {
	t.Parallel()
	a, disk, get := on(t)
	write := func() error {
		_, err := a.stores.store.Append(t.Context(), "s-"+uuid.NewString(), eventstore.NoStream,
			[]eventstore.Proposed{{ID: uuid.New(), Type: "x", Data: []byte(`{}`)}})
		return err
	}
	for _, step := range []struct {
		free     uint64
		status   int
		answer   string
		writable string
	}{
		{1 << 40, 200, `"disk"`, "carillon_eventstore_writable 1"},
		{1 << 20, 503, "not ready: disk", "carillon_eventstore_writable 0"},
		{1 << 40, 200, `"disk"`, "carillon_eventstore_writable 1"},
	} {
		disk.free.Store(step.free)
		must.Eventually(t, step.answer, func() bool {
			status, body := get("/readyz")
			return status == step.status && strings.Contains(body, step.answer)
		})
		if _, metrics := get("/metrics"); !strings.Contains(metrics, step.writable) {
			t.Errorf("%d bytes are free, metrics lack %q", step.free, step.writable)
		}
		assert.Equal(t, (write() == nil), step.status == 200, "%d bytes are free, append", step.free)
	}
}

// With --dev a server is of no use before its key is there: when it is ready, the key is there.
func TestWithoutItsDevelopmentKeyItIsNotReady(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	a.keyless.Store(true) // as Open does
	if status, body := get("/readyz"); status != 503 || !strings.Contains(body, "development key (not made yet)") {
		t.Errorf("without the key: %d %s", status, body)
	}
	a.keyless.Store(false)
	if status, body := get("/readyz"); status != 200 {
		t.Errorf("with the key: %d %s", status, body)
	}
}

// A consumer whose lock an analyst holds is run by no process: readiness names the session, and a metric counts it.
func TestStrangerWithLockIsNotReady(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	pool, name := a.stores.pool, "ana_"+strings.ToLower(rand.Text())
	logins := analytics.Logins{Pool: pool, Log: a.log}
	must.OK(t, projections.EnsureSchema(t.Context(), pool, auditors.ReadModel))
	connection := must.Get(logins.Create(t.Context(), name))(t)
	t.Cleanup(func() {
		must.OK(t, logins.Delete(context.WithoutCancel(t.Context()), name))
	})
	must.Get(pool.Exec(t.Context(), "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC"))(t)
	conn := must.Get(pgx.Connect(t.Context(), connection))(t)
	a.Metrics.MustRegister(scraped(a.readModels.readCheckpoints))
	h := fnv.New64a()
	_, _ = h.Write([]byte("carillon consumer auditors"))
	must.Get(conn.Exec(t.Context(), "SELECT pg_advisory_lock($1)", int64(h.Sum64())))(t)
	status, body := get("/readyz")
	assert.True(t, status == 503 && strings.Contains(body, "held by a session that is not Carillon's: "+name+", pid "),
		"readyz: %d %s", status, body)
	_, metrics := get("/metrics")
	for _, want := range []string{
		"carillon_locks_held_by_strangers 1", `carillon_consumer_running{consumer="auditors"} 0`,
	} {
		assert.True(t, strings.Contains(metrics, want), "metrics lack %q", want)
	}
}

// An event store or a Postgres that gives no answer is named by readiness, with since when, and by a metric.
func TestUnreachableIsShown(t *testing.T) {
	t.Parallel()
	a, _, get := on(t)
	a.stores.watchReach()
	for _, w := range []*struct {
		name, metric string
		lose         func()
	}{
		{"eventStore", "carillon_eventstore_reachable", func() {
			a.stores.storeReach.Heard = nil
			lose(t, a.stores.storeReach)
		}},
		{"postgres", "carillon_postgres_reachable", func() { lose(t, a.stores.databaseReach) }},
	} {
		if _, body := get("/metrics"); !strings.Contains(body, w.metric+" 1\n") {
			t.Errorf("%s: no metric while it is reached", w.name)
		}
		w.lose()
		must.Eventually(t, w.name+" is named", func() bool {
			status, body := get("/readyz")
			return status == 503 && strings.Contains(body, w.name+" (no answer since ")
		})
		if _, body := get("/metrics"); !strings.Contains(body, w.metric+" 0\n") {
			t.Errorf("%s: no metric of the loss", w.name)
		}
	}
}

// lose runs a watch that gets no answer.
func lose(t *testing.T, w *reach.Watch) {
	t.Helper()
	w.Beat, w.Ask = 20*time.Millisecond, func(context.Context) error { return errors.New("cut") }
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
}
