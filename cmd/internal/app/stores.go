package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/command/irreversible"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/reach"
	"carillon/projections/sessionlock"
)

const maxSocketPath = 100 // bytes; the kernel takes 107

// eventStore is an eventstore.Store with an identity.
type eventStore interface {
	eventstore.Store
	Identity(ctx context.Context) (string, error)
}

// stores are the event store and Postgres, embedded or elsewhere, with the data keys in them.
type stores struct {
	*part
	store eventStore
	// tombstone ends a stream of the store permanently.
	tombstone func(ctx context.Context, stream string) error
	// scavenge reclaims the space of deleted streams; nil if the store is elsewhere.
	scavenge func(ctx context.Context) error
	server   *esdb.Store // the store, if it is a server elsewhere; nil if it is embedded
	full     func() bool // whether the embedded node has no room for appends; nil if the store is elsewhere

	pool  *pgxpool.Pool
	locks *sessionlock.Locks
	// keyPool is of authentication alone, so that callers without a key take nothing from those with one; sessionPool is
	// of the console, for the same reason.
	keyPool, sessionPool *pgxpool.Pool

	clock *adapters.Clock // of all that other processes compare
	gate  *irreversible.Gate
	keys  *custody.Custody
	// storeReach and databaseReach know whether this process reaches what it stands on.
	storeReach, databaseReach *reach.Watch

	closers []func() // in order of opening
}

// openStores opens both stores, makes what is missing in Postgres, and checks the data keys.
func openStores(ctx context.Context, p *process) (_ *stores, err error) {
	s := &stores{part: p.newPart()}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	if p.tracing != nil {
		s.store = p.tracing.Store(s.store)
	}
	s.watchDeletedStreams()
	if err := s.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	s.clock = &adapters.Clock{Pool: s.pool, Log: p.log}
	if err := s.clock.Look(ctx); err != nil {
		return nil, err
	}
	s.gate = &irreversible.Gate{Store: s.store, Database: s.clock.Ask, Own: time.Now}
	if err := s.openKeys(ctx); err != nil {
		return nil, err
	}
	s.watchReach()
	s.metrics()
	s.keyMetrics()
	return s, nil
}

func (s *stores) open(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	var storeErr error
	elsewhere := s.cfg.EventStoreURL != ""
	if elsewhere { // does not connect yet, so that a mistyped address shows before anything slow
		if err := s.openEventStore(); err != nil {
			return err
		}
	}
	var opening sync.WaitGroup
	var databaseURL string
	var databaseErr error
	var stopDatabase func()
	opening.Go(func() { // the slower of the two
		databaseURL, stopDatabase, databaseErr = openDatabase(ctx, &s.cfg, s.log)
	})
	if !elsewhere {
		storeErr = s.openEventStore()
	}
	opening.Wait()
	if stopDatabase != nil {
		s.closers = append(s.closers, stopDatabase)
	}
	if err := errors.Join(storeErr, databaseErr); err != nil {
		return err
	}
	return s.openPools(databaseURL)
}

// start runs the watches over the stores and over the data keys.
func (s *stores) start() {
	for _, w := range []*reach.Watch{s.storeReach, s.databaseReach} {
		s.keep("reach of "+w.Name, w.Run)
	}
	s.keep("data keys", s.keys.Watch)
}

func (s *stores) openEventStore() (err error) {
	if url := s.cfg.EventStoreURL.Reveal(); url != "" {
		if s.server, err = esdb.Open(url, s.log); err != nil {
			return fmt.Errorf("CARILLON_EVENTSTORE_URL: %w", err)
		}
		s.store, s.tombstone = s.server, s.server.Tombstone
		s.closers = append(s.closers, func() { _ = s.server.Close() })
		return nil
	}
	dir := filepath.Join(s.cfg.DataDir, "eventstore")
	embedded, err := node.Open(node.Config{Dir: dir, Logger: s.log})
	if err != nil {
		return fmt.Errorf("embedded event store: %w", err)
	}
	s.full = embedded.Full
	s.closers = append(s.closers, func() {
		if err := embedded.Close(); err != nil {
			s.log.Error("embedded event store did not close cleanly", "error", err)
		}
	})
	socket, remove, err := socketPath(s.cfg.DataDir)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, remove)
	tasks, err := maintenance.Serve(embedded, dir, socket, s.log)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, tasks.Close)
	go func() {
		if err := embedded.ListenUnix(socket); err != nil {
			s.fail(fmt.Errorf("embedded event store: %w", err))
		}
	}()
	closed := make(chan struct{})
	s.closers = append(s.closers, func() { close(closed) })
	go func() {
		select {
		case <-embedded.Failed():
			s.fail(fmt.Errorf("embedded event store: %w", embedded.Err()))
		case <-closed:
		}
	}()
	s.store, s.tombstone = embedded.Store(), embedded.Store().Tombstone
	s.scavenge = func(ctx context.Context) error {
		removed, err := embedded.Scavenge(ctx, nil)
		if removed.Events > 0 {
			s.log.Info("event store scavenged", "events", removed.Events, "bytes", removed.Bytes)
		}
		return err
	}
	s.closers = append(s.closers, embedded.Store().Close)
	return nil
}

// socketPath is in the data directory, or in a separate one if that path is too long for a socket.
func socketPath(dataDir string) (path string, remove func(), err error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", nil, fmt.Errorf("data directory: %w", err)
	}
	path = filepath.Join(dir, "eventstore.sock")
	if len(path) <= maxSocketPath {
		return path, func() { _ = os.Remove(path) }, nil
	}
	short, err := os.MkdirTemp("", "carillon-")
	if err != nil {
		return "", nil, fmt.Errorf("socket of the embedded event store: %w", err)
	}
	return filepath.Join(short, "eventstore.sock"), func() { _ = os.RemoveAll(short) }, nil
}

// close undoes the opening, in reverse order.
func (s *stores) close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// watchReach makes the watches over the event store and over Postgres, with their metrics. That over Postgres asks for
// the time, which the process's clock follows. Work under locks runs while the event store is reached; a lock is lost
// with its Postgres session, without a watch.
func (s *stores) watchReach() {
	s.storeReach = &reach.Watch{
		Name: "event store",
		Ask: func(ctx context.Context) error {
			_, err := s.store.Head(ctx)
			return err
		},
		Log: s.log,
	}
	if s.server != nil {
		s.storeReach.Heard, s.storeReach.Lost = s.server.Heard, s.server.Reconnect
	}
	s.databaseReach = &reach.Watch{Name: "Postgres", Ask: s.clock.Look, Log: s.log}
	s.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "carillon_eventstore_reachable",
			Help: "0 while this process has had no answer from the event store for 5 seconds or more, else 1.",
		}, func() float64 { return boolToFloat(s.storeReach.Err() == nil) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "carillon_postgres_reachable",
			Help: "0 while this process has had no answer from Postgres for 5 seconds or more, else 1.",
		}, func() float64 { return boolToFloat(s.databaseReach.Err() == nil) }))
}

// metrics registers the metrics of the event store: of the connection to a server, and of the embedded node.
func (s *stores) metrics() {
	s.Metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_eventstore_resubscribed_total",
		Help: "Subscriptions that the event store dropped because of a burst, each of which went on at once.",
	}, func() float64 {
		if s.server == nil {
			return 0
		}
		return float64(s.server.Resubscribed())
	}))
	if s.full == nil {
		return
	}
	s.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_eventstore_writable", Help: "0 while the embedded event store refuses appends because its disk is " +
			"full, else 1.",
	}, func() float64 { return boolToFloat(!s.full()) }))
}
