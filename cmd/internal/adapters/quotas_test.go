package adapters_test

import (
	"log/slog"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
)

// A limit that nothing counts keeps the program from its start; the counters of the others run.
func TestLimitsHaveCounters(t *testing.T) {
	t.Parallel()
	quotas := adapters.Quotas{Pool: apitest.Prepared.Pool(t), Log: slog.New(slog.DiscardHandler)}
	for _, limit := range adapters.CountedLimits() {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("starts without a counter of %s", limit)
				}
			}()
			adapters.WithoutCounter(limit)
		}()
		if err := quotas.Claim(t.Context(), uuid.New(), limit, uuid.New(), 1); err != nil {
			t.Errorf("%s: %v", limit, err)
		}
		if limit.Definition().Default == 0 {
			t.Errorf("%s is counted, but not declared", limit)
		}
	}
}
