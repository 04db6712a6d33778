package health_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/health"
	"carillon/projections/projecttest"
)

var (
	alpha = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	beta  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

type row struct {
	Failures      int
	Streak        *time.Time
	LastSuccess   *time.Time
	LastFailure   *time.Time
	LastErrorText *string
}

func read(t *testing.T, pool *pgxpool.Pool, destination uuid.UUID) []row {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT consecutive_failures, streak_started_at, last_success_at, last_failure_at,
		last_error_message
		FROM health.health WHERE destination = $1`, destination)
	must.OK(t, err)
	found := must.Get(pgx.CollectRows(rows, pgx.RowToStructByPos[row]))(t)
	for _, r := range found {
		for _, at := range []*time.Time{r.Streak, r.LastSuccess, r.LastFailure} {
			if at != nil {
				*at = at.UTC()
			}
		}
	}
	return found
}

// after returns the end of an attempt that began some minutes after noon and took a second.
func after(minutes int) *time.Time {
	return new(noon.Add(time.Duration(minutes)*time.Minute + time.Second))
}

func TestHealth(t *testing.T) {
	t.Parallel()
	fail := func(minutes int, trigger delivery.Trigger) func(*projecttest.Log) {
		return attempt(alpha, minutes, trigger, delivery.Outcome{
			FailureReason:  "timeout",
			ErrorMessage:   "no answer",
			DurationMicros: 1e6,
		})
	}
	succeed := func(minutes int) func(*projecttest.Log) {
		return attempt(alpha, minutes, delivery.Automatic, delivery.Outcome{ResponseStatus: 204, DurationMicros: 1e6})
	}
	happens := func(events ...destination.Event) func(*projecttest.Log) {
		return func(l *projecttest.Log) { projecttest.Stream(l, destination.Aggregate, alpha, noon)(events...) }
	}
	created := happens(destination.Created{Settings: destination.Settings{Name: "CRM"}, At: noon})
	type steps = []func(*projecttest.Log)
	tests := map[string]struct {
		steps steps
		want  []row
	}{
		"new": {steps{created}, []row{{}}},
		"every failure counts": {
			steps{created, fail(1, delivery.Automatic), fail(2, delivery.ManualReplay)},
			[]row{{2, after(1), nil, after(2), new("no answer")}},
		},
		"an attempt that two processes made counts once": {
			steps{created, fail(1, delivery.Automatic), func(l *projecttest.Log) {
				projecttest.Stream(l, delivery.Aggregate, uuid.New(), noon)(delivery.Attempted{
					Destination:    alpha,
					Number:         2,
					RenumberedFrom: 1,
					Trigger:        delivery.Automatic,
					Outcome:        delivery.Outcome{FailureReason: "timeout"},
					At:             noon.Add(time.Hour),
				})
			}},
			[]row{{1, after(1), nil, after(1), new("no answer")}},
		},
		"another's failure": {
			steps{created, fail(1, delivery.Automatic), func(l *projecttest.Log) {
				projecttest.Stream(l, destination.Aggregate, beta, noon)(destination.Created{At: noon})
			}, attempt(beta, 2, delivery.Automatic, delivery.Outcome{FailureReason: "dns"}), fail(3, delivery.Automatic)},
			[]row{{2, after(1), nil, after(3), new("no answer")}},
		},
		"a success ends a streak": {
			steps{created, fail(1, delivery.Automatic), succeed(2)},
			[]row{{0, nil, after(2), nil, nil}},
		},
		"a failure leaves the last success": {
			steps{created, succeed(1), fail(2, delivery.Automatic), fail(3, delivery.Automatic)},
			[]row{{2, after(2), after(1), after(3), new("no answer")}},
		},
		"enabling begins a new streak": {
			steps{created, fail(1, delivery.Automatic), happens(destination.AutoDisabled{At: noon},
				destination.Enabled{At: noon})},
			[]row{{0, nil, nil, after(1), new("no answer")}},
		},
		"a new streak counts from its own beginning": {
			steps{created, fail(1, delivery.Automatic), happens(destination.Disabled{At: noon}, destination.Enabled{At: noon}),
				fail(5, delivery.Automatic)},
			[]row{{1, after(5), nil, after(5), new("no answer")}},
		},
		"disabling changes nothing": {
			steps{created, fail(1, delivery.Automatic), happens(destination.Disabled{At: noon})},
			[]row{{1, after(1), nil, after(1), new("no answer")}},
		},
		"an old success that comes late":  {steps{created, succeed(5), succeed(2)}, []row{{0, nil, after(5), nil, nil}}},
		"deleted":                         {steps{created, succeed(1), happens(destination.Deleted{At: noon})}, []row{}},
		"an attempt that outlives it all": {steps{created, happens(destination.Deleted{At: noon}), succeed(1)}, []row{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := projecttest.New(t, health.ReadModel)
			for _, step := range test.steps {
				step(log)
			}
			for _, size := range []int{1, 2, 500} {
				log.ProjectInBatches(health.ReadModel, size)
				assert.Alike(t, read(t, log.Database, alpha), test.want, "in batches of %d", size)
			}
		})
	}
}

func attempt(
	destination uuid.UUID, minutes int, trigger delivery.Trigger, outcome delivery.Outcome,
) func(*projecttest.Log) {
	return func(l *projecttest.Log) {
		projecttest.Stream(l, delivery.Aggregate, uuid.New(), noon)(delivery.Attempted{
			Destination: destination,
			Number:      1,
			Trigger:     trigger,
			Outcome:     outcome,
			At:          noon.Add(time.Duration(minutes) * time.Minute),
		})
	}
}
