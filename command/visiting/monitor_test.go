package visiting_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/command/visiting"
	"carillon/eventstore"
)

// unreadable is a schedule that can't be read for a while.
type unreadable struct {
	visiting.Walks

	begun time.Time
	asked []time.Duration
}

func (u *unreadable) Take(context.Context, int, []string) ([]visiting.Turn, error) {
	at := time.Since(u.begun)
	u.asked = append(u.asked, at)
	if at < 15*time.Second {
		return nil, eventstore.ErrUnavailable
	}
	return nil, nil
}

// A schedule that can't be read is asked less and less often, and again each second once it can be.
func TestMonitor_unreadableSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &unreadable{begun: time.Now()}
		ctx, cancel := context.WithTimeout(t.Context(), 17500*time.Millisecond)
		defer cancel()
		(&visiting.Monitor{Walks: u, Log: slog.New(slog.DiscardHandler)}).Run(ctx)
		var want []time.Duration
		for _, seconds := range []int{0, 2, 4, 5, 10, 15, 16, 17} {
			want = append(want, time.Duration(seconds)*time.Second)
		}
		if diff := cmp.Diff(want, u.asked); diff != "" {
			t.Error(diff)
		}
	})
}
