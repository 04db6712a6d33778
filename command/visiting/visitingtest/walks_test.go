package visitingtest_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/visiting"
	"carillon/command/visiting/visitingtest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
)

// memory is Walks with their store.
type memory struct {
	*visitingtest.Walks

	store eventstore.Store
}

func (m memory) Another() visiting.Walks           { return m.Walks }
func (m memory) Age(_ *testing.T, d time.Duration) { m.Walks.Age(d) }
func (m memory) Lose(*testing.T)                   { m.Forget() }
func (m memory) Source(t *testing.T, id uuid.UUID, events ...source.Event) {
	t.Helper()
	processtest.Record(t, m.store, source.Aggregate, id, events...)
}

func (m memory) Happening(t *testing.T, id uuid.UUID, events ...happening.Event) {
	t.Helper()
	processtest.Record(t, m.store, happening.Aggregate, id, events...)
}

func TestWalksKeepTheContract(t *testing.T) {
	t.Parallel()
	visitingtest.Run(t, func(t *testing.T) visitingtest.Subject {
		t.Helper()
		store := nodetest.Start(t)
		return memory{visitingtest.New(store), store}
	})
}
