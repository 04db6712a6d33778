package deliveries_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
)

// node is an event store whose events are projected.
type node struct {
	t      testing.TB
	store  eventstore.Store
	pool   *pgxpool.Pool
	runner *projections.Runner
}

func startNode(t testing.TB) node {
	t.Helper()
	store, pool := nodetest.Start(t), projecttest.Pool(t)
	runner := &projections.Runner{
		Pool:     pool,
		Locks:    pgtest.Locks(t, pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(pool),
	}
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, p := range []projections.ReadModel{
		destinations.ReadModel, organizations.ReadModel, publications.ReadModel, deliveries.ReadModel,
	} {
		go func() { ended <- runner.Project(running, p) }()
	}
	t.Cleanup(func() {
		stop()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return node{t, store, pool, runner}
}

// TestFromTheStoreToAClaim takes the whole way: commands, the embedded node, Watermill, the three read models that a
// claim reads.
func TestFromTheStoreToAClaim(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := startNode(t)
	store, pool, runner := n.store, n.pool, n.runner
	by := eventstore.Metadata{Organization: org, Actor: "test"}
	create := destination.Create{
		Organization: org,
		Settings:     destination.Settings{Name: "CRM", URL: "https://example.org/hook"},
		SecretID:     uuid.New(),
		Secret:       []byte("sealed"),
		At:           noon,
	}
	created, err := destination.Aggregate.Execute(ctx, store, alpha, create, destination.Options{Metadata: by})
	if err != nil {
		t.Fatal(err)
	}
	publish := publication.Publish{Published: publication.Published{
		Organization: org,
		Type:         "research.status.changed",
		Source:       "https://example.org/research",
		Time:         noon,
		Data:         []byte(`{"n":1.50}`),
	}}
	published, err := publication.Aggregate.Execute(ctx, store, event(1), publish, publication.Options{Metadata: by})
	if err != nil {
		t.Fatal(err)
	}
	schedule := dispatch.Schedule{DeliveriesScheduled: dispatch.DeliveriesScheduled{
		Publication: event(1),
		At:          noon,
		Deliveries:  []dispatch.Scheduled{to(alpha)},
		Event:       dispatch.Summary{Type: "research.status.changed", Source: "https://example.org/research", Time: noon},
	}}
	if _, err := dispatch.Aggregate.Execute(ctx, store, event(1),
		schedule, dispatch.Options{Metadata: by}); err != nil {
		t.Fatal(err)
	}
	id := dispatch.DeliveryID(event(1), alpha)
	record := delivery.RecordAttempt{
		Organization: org,
		Destination:  alpha,
		Number:       1,
		Trigger:      delivery.Automatic,
		At:           noon,
		Outcome:      delivery.Outcome{FailureReason: "timeout"},
		Retry:        delivery.Retry{Schedule: []time.Duration{5 * time.Second}},
	}
	recorded, err := delivery.Aggregate.Execute(ctx, store, id, record, delivery.Options{Metadata: by})
	if err != nil {
		t.Fatal(err)
	}
	for name, position := range map[string]eventstore.Position{
		destinations.ReadModel.Name: created.Position, publications.ReadModel.Name: published.Position,
		deliveries.ReadModel.Name: recorded.Position,
	} {
		if !runner.Progress.Await(ctx, position, name) {
			t.Fatalf("%s did not get there", name)
		}
	}
	claimed, err := claimOnce(ctx, pool, me, deliveries.Ask{PerDestination: 10, Limit: 10, Lease: lease},
		noon.Add(5*time.Second))
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %d (%v), want 1", len(claimed), err)
	}
	c := claimed[0]
	if c.ID != id || c.Attempts != 1 || c.Revision != recorded.Revision || string(c.Event.Data) != `{"n":1.50}` {
		t.Errorf("claimed %+v", c)
	}

	// No event has the claim; a rebuild keeps it all the same.
	if err := runner.Rebuild(ctx, deliveries.ReadModel, nil); err != nil {
		t.Fatal(err)
	}
	var (
		worker int32
		until  time.Time
	)
	err = pool.QueryRow(ctx, "SELECT coalesce(worker, 0), available_at FROM deliveries.due WHERE id = $1", id).
		Scan(&worker, &until)
	if err != nil || worker != me || !until.Equal(c.LeasedUntil) {
		t.Errorf("after a rebuild %d holds it until %s (%v), want %d until %s", worker, until, err, me, c.LeasedUntil)
	}
}
