package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/audit"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
)

const (
	verifyLook    = 10 * time.Minute // between two looks at whether a day is over
	proofEvery    = time.Hour        // between two comparisons of all credentials
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
	proven   *adapters.Proven
}

// credentials compares all credentials with the log, at the start and at each tick until the context ends. A read model
// in which one is forged is verified as a whole: so that the difference is named, and shown until it is rebuilt.
func (v *verifications) credentials(ctx context.Context, ticks <-chan time.Time) {
	for {
		differ, err := v.proven.Compare(ctx)
		for _, readModel := range differ {
			err = errors.Join(err, v.verify(ctx, readModel, wholeSample, nil))
		}
		if err != nil && ctx.Err() == nil {
			v.log.Warn("credentials not compared with the log, tried again in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}

// Compared lists the consumers that can be compared with the log: read models and the states of process managers.
func Compared() []string {
	var names []string
	for _, m := range ReadModels() {
		names = append(names, m.Name)
	}
	for _, m := range processManagers(reactions{}) {
		if traits := m.fresh(nil).Traits(); traits.Folded != nil {
			names = append(names, traits.Name)
		}
	}
	return names
}

// comparedDaily reports whether daily compares a consumer: the audit trail, credentials, and all states.
func comparedDaily(name string) bool {
	small := []string{
		audit.ReadModel.Name, organizations.ReadModel.Name, operators.ReadModel.Name, auditors.ReadModel.Name,
	}
	return slices.Contains(small, name) ||
		!slices.ContainsFunc(ReadModels(), func(m projections.ReadModel) bool { return m.Name == name })
}

// daily verifies a consumer once a day, in one of all processes, until the context ends.
func (v *verifications) daily(ctx context.Context, name string, looks <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks:
		}
		if !v.due(ctx, name) {
			continue
		}
		err := v.verify(ctx, name, wholeSample, nil)
		if err != nil && !errors.Is(err, projections.ErrRebuilding) && ctx.Err() == nil {
			v.log.Warn("verification failed, tried again later", "projection", name, "error", err)
		}
	}
}

// due reports whether a read model that is complete was not verified as a whole for a day.
func (v *verifications) due(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	statuses, err := v.statuses(ctx)
	i := slices.IndexFunc(statuses, func(s projections.Status) bool { return s.Name == name })
	if err != nil || i < 0 || statuses[i].UpdatedAt.IsZero() || statuses[i].Incomplete || statuses[i].Outdated != "" {
		return false // one that never ran has nothing to compare
	}
	last := statuses[i].Verified
	return last == nil || last.Sample < wholeSample || v.now().Sub(last.At) >= verifyEvery
}

// verify compares a consumer with its events, and logs the result.
func (v *verifications) verify(
	ctx context.Context, name string, sample float64, report func(at, head eventstore.Position),
) (err error) {
	var result projections.Verification
	for _, m := range ReadModels() {
		if m.Name == name {
			result, err = v.runner.Verify(ctx, m, sample, report)
		}
	}
	for _, m := range processManagers(reactions{}) {
		if m.fresh(nil).Traits().Name == name {
			result, err = v.runner.VerifyState(ctx, func() eventstore.ProcessManager { return m.fresh(nil) }, report)
		}
	}
	if err != nil {
		return err
	}
	log := v.log.With("projection", name, "rows", result.Rows, "sample", result.Sample)
	if result.Differing == 0 {
		log.Info("rows agree with the log")
		return nil
	}
	log.Error("rows differ from the log (carillon projections status)", "differing", result.Differing,
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
			kind, remedy := "read model", "carillon projections rebuild "+s.Name
			if last.Differences[0].Table == projections.StateTable {
				kind, remedy = "process", "DROP SCHEMA "+s.Name+" CASCADE, restart, and carillon projections verify "+s.Name
			}
			warnings = append(warnings, fmt.Sprintf("%s %s: rows that differ from the log: %d, the first is %s: "+
				"find out who changed them, then %s", kind, s.Name, last.Differing, last.Differences[0], remedy))
		}
	}
	return warnings
}
