package command_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// accessThat finds every feed readable, after it has done something.
type accessThat func()

// Readable implements command.Access.
func (do accessThat) Readable(context.Context, uuid.UUID, string, uuid.UUID) (bool, error) {
	do()
	return true, nil
}

// A destination that is deleted while it gets a subscription has none, and who asked for it hears so.
func TestSubscription_destinationDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	f := onFeeds(t)
	f.Catalog = must.Get(catalog.New())(t)
	for name, subscribe := range map[string]func(command.CreateSubscription) (command.Result[subscription.State], error){
		"POST": func(in command.CreateSubscription) (command.Result[subscription.State], error) {
			return f.CreateSubscription(t.Context(), f.by, in)
		},
		"PUT": func(in command.CreateSubscription) (command.Result[subscription.State], error) {
			return f.UpsertSubscription(t.Context(), f.by, command.UpsertSubscription(in))
		},
	} {
		of := uuid.New()
		change := func(c destination.Command) {
			must.Get(destination.Aggregate.Execute(t.Context(), f.Store, of, c, destination.Options{}))(t)
		}
		change(destination.Create{
			Organization: f.org,
			SecretID:     uuid.New(),
			Settings:     destination.Settings{Name: name},
			At:           noon,
		})
		f.Access = accessThat(func() { change(destination.Delete{Organization: f.org, At: noon}) })
		pins := []subscription.Pin{{FeedType: "news", FeedID: uuid.New()}}
		made, err := subscribe(command.CreateSubscription{Destination: of, Settings: subscription.Settings{
			ExternalID: "s",
			EventTypes: []string{"*"},
			ScopeKind:  subscription.ScopeFeeds,
			Feeds:      pins,
		}})
		refused(t, err, command.NotFound, "")
		left := must.Get(subscription.Aggregate.Load(t.Context(), f.Store, made.ID))(t)
		assert.Equal(t, left.State.Status, subscription.StatusDeleted, "%s leaves it", name)
	}
}
