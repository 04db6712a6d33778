package adminapi

import (
	"context"
	"testing"
	"testing/synctest"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Of all bodies together a bounded number of events is on the way into the store, and fewer if they are large. Each
// comes in the order in which it waits, so that no body waits for the whole of another one.
func TestEventsOfBodiesWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		size   int64
		single bool // single events are being published
		want   int
	}{
		"small":                 {100, false, intakeEvents},
		"beside a single event": {100, true, intakeBeside},
		"large":                 {512 << 10, true, intakeBytes / (512 << 10)},
		"huge":                  {2 * intakeBytes, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := newIntake()
				if tt.single {
					in.beside()
				}
				const each = 100
				var order []int
				entered := make(chan func(), 2*each)
				for body := range 2 {
					for range each { // those of the first body wait first
						go func() {
							left, err := in.enter(t.Context(), tt.size)
							if err != nil {
								t.Error(err)
								return
							}
							order = append(order, body)
							entered <- left
						}()
						synctest.Wait()
					}
				}
				must.Equal(t, len(entered), tt.want, "are on their way")
				for range 2 * each {
					(<-entered)()
					synctest.Wait()
				}
				assert.True(t, len(order) == 2*each && order[0] == 0 && order[2*each-1] == 1, "they came in the order %v", order)
			})
		})
	}
}

func TestAnEventWhoseBodyIsGoneWaitsNoLonger(t *testing.T) {
	t.Parallel()
	in := newIntake()
	left := must.Get(in.enter(t.Context(), intakeBytes))(t)
	defer left()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Is(t, assert.Err(in.enter(gone, 1)), context.Canceled, "it hears")
}
