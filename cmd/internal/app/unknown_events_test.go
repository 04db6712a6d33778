package app_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/eventstore"
	"carillon/projections/projecttest"
)

// No read model passes over an event that it can't decode, in any of the streams that it reads.
func TestUnknownEventStops(t *testing.T) {
	t.Parallel()
	models := app.ReadModels()
	log := projecttest.New(t, models...)
	for _, model := range models {
		for _, prefix := range model.Filter.Prefixes {
			err := log.ProjectError(model, eventstore.Recorded{
				Stream: prefix + uuid.NewString(),
				Type:   "something.happened.v9",
				Data:   []byte("{}"),
			})
			if !errors.Is(err, eventstore.ErrUndecodable) {
				t.Errorf("%s, %s: error = %v, want one that is ErrUndecodable", model.Name, prefix, err)
			}
		}
	}
}
