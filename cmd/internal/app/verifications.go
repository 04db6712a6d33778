package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"carillon/eventstore"
	"carillon/projections"
)

const (
	verifyLook    = 10 * time.Minute // between two looks at whether a day is over
	verifyEvery   = 24 * time.Hour
	verifyTimeout = 2 * time.Second // of a look
	wholeSample   = 100             // percent
)

// verifications compare read models with their events.
type verifications struct {
	runner   *projections.Runner
	statuses func(context.Context) ([]projections.Status, error)
	now      func() time.Time
	log      *slog.Logger
}

// daily verifies a read model once a day, in one of all processes, until the context ends.
func (v *verifications) daily(ctx context.Context, m projections.ReadModel, looks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		if !v.due(ctx, m.Name) {
			continue
		}
		err := v.verify(ctx, m, wholeSample, nil)
		if err != nil && !errors.Is(err, projections.ErrRebuilding) && ctx.Err() == nil {
			v.log.Warn("verification failed, tried again later", "projection", m.Name, "error", err)
		}
	}
}

// due reports whether a read model that is complete was not verified as a whole for a day.
func (v *verifications) due(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	statuses, err := v.statuses(ctx)
	i := slices.IndexFunc(statuses, func(s projections.Status) bool { return s.Name == name })
	if err != nil || i < 0 || statuses[i].Incomplete || statuses[i].Outdated != "" {
		return false
	}
	last := statuses[i].Verified
	return last == nil || last.Sample < wholeSample || v.now().Sub(last.At) >= verifyEvery
}

// verify compares a read model with its events, and logs the result.
func (v *verifications) verify(
	ctx context.Context, m projections.ReadModel, sample float64, report func(at, head eventstore.Position),
) error {
	result, err := v.runner.Verify(ctx, m, sample, report)
	if err != nil {
		return err
	}
	log := v.log.With("projection", m.Name, "rows", result.Rows, "sample", result.Sample)
	if result.Differing == 0 {
		log.Info("read model agrees with the log")
		return nil
	}
	log.Error("read model differs from the log (carillon projections status)", "differing", result.Differing,
		"first", result.Differences[0].String())
	return nil
}

// warnings are those of readiness and status about read models that differ from the log. Without Postgres there are
// none.
func (v *verifications) warnings() []string {
	ctx, cancel := context.WithTimeout(context.Background(), verifyTimeout)
	defer cancel()
	statuses, err := v.statuses(ctx)
	if err != nil {
		return nil
	}
	var warnings []string
	for _, s := range statuses {
		if last := s.Verified; last != nil && last.Differing > 0 {
			warnings = append(warnings, fmt.Sprintf("read model %s: rows that differ from the log: %d, the first is %s: "+
				"find out who changed them, then carillon projections rebuild %[1]s",
				s.Name, last.Differing, last.Differences[0]))
		}
	}
	return warnings
}
