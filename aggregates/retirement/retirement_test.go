package retirement_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/retirement"
	"carillon/eventstore/aggregatetest"
)

var (
	noon    = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	retired = retirement.Retired{
		Batch:        uuid.MustParse("11111111-1111-4111-8111-111111111111"),
		Before:       noon.AddDate(-1, 0, 0),
		Publications: []retirement.Publication{{ID: uuid.MustParse("22222222-2222-4222-8222-222222222222"), To: []int{0}}},
		Destinations: []retirement.Destination{{
			ID:           uuid.MustParse("33333333-3333-4333-8333-333333333333"),
			Organization: uuid.MustParse("44444444-4444-4444-8444-444444444444"),
			Health: retirement.Health{
				ConsecutiveFailures: 3,
				StreakStartedAt:     noon.AddDate(-1, -1, 0),
				LastSuccessAt:       noon.AddDate(-2, 0, 0),
				LastFailureAt:       noon.AddDate(-1, 0, 0),
				LastErrorMessage:    "the endpoint answered 500",
			},
		}},
		Outcomes: []retirement.Outcomes{{
			Day:        "2024-11-27",
			Type:       "news.item.added",
			FeedID:     uuid.MustParse("55555555-5555-4555-8555-555555555555"),
			Succeeded:  1,
			Failed:     2,
			Superseded: 3,
			Discarded:  4,
		}},
		Attempts: []retirement.Attempts{{
			Day:            "2024-11-27",
			FailureReason:  "http_status",
			ResponseStatus: 500,
			DurationMicros: 1200,
			Count:          2,
			Deliveries:     1,
			LastAt:         noon.AddDate(-2, 0, 0),
		}},
		At: noon,
	}
	happenings = retirement.HappeningsRetired{
		Batch:      uuid.MustParse("77777777-7777-4777-8777-777777777777"),
		Before:     noon.AddDate(-1, 0, 0),
		Happenings: []retirement.Happening{{ID: uuid.MustParse("88888888-8888-4888-8888-888888888888"), In: []int{0}}},
		Feeds:      []uuid.UUID{uuid.MustParse("55555555-5555-4555-8555-555555555555")},
		Shown: []retirement.Shown{{
			SourceID:   uuid.MustParse("99999999-9999-4999-8999-999999999999"),
			Happenings: 1,
		}},
		Feedback: []retirement.Feedback{{
			Organization: uuid.MustParse("44444444-4444-4444-8444-444444444444"),
			Day:          "2024-11-27",
			Rating:       "positive",
			Count:        2,
		}},
		Backfills: []retirement.Backfill{{
			SourceID:   uuid.MustParse("99999999-9999-4999-8999-999999999999"),
			AttachedAt: noon.AddDate(-2, 0, 0),
			Added:      3,
		}},
		At: noon,
	}
	removed = retirement.Removed{At: noon}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[retirement.Event](t, retirement.Events, retired, happenings, removed)
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	next := retirement.Retire(retired)
	next.Batch = uuid.MustParse("66666666-6666-4666-8666-666666666666")
	aggregatetest.Table(t, retirement.Aggregate).
		State("none").
		State("retired", retired).
		State("removed", removed).
		When(retirement.Retire(retired), "Retired", "", "Retired").
		When(next, "Retired", "Retired", "Retired").
		When(retirement.RetireHappenings(happenings), "HappeningsRetired", "HappeningsRetired", "HappeningsRetired").
		When(retirement.Remove{At: noon}, "Removed", "Removed", "")
}
