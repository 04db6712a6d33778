package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"carillon/cmd/internal/adminapi"
	"carillon/projections"
)

// errFull names the repair for the operator.
var errFull = errors.New("the embedded event store refuses appends: its disk has less than 64 MiB of free space")

// ready reports for each dependency of this process whether it works now.
func (s *servers) ready(ctx context.Context) map[string]error {
	components := map[string]error{}
	if components["eventStore"] = s.stores.storeReach.Err(); components["eventStore"] == nil {
		_, components["eventStore"] = s.stores.store.Head(ctx)
	}
	if s.stores.full != nil {
		components["disk"] = nil
		if s.stores.full() {
			components["disk"] = errFull
		}
	}
	if s.keyless.Load() {
		components["development key"] = adminapi.Unready("not made yet")
	}
	components["data keys"] = s.stores.keysReady()
	statuses, err := s.readModels.statuses(ctx)
	components["postgres"] = err
	ours, models := map[string]bool{}, map[string]projections.ReadModel{}
	for _, c := range consumers() {
		ours[c.name] = true
	}
	for _, m := range ReadModels() {
		models[m.Name] = m
	}
	for _, c := range statuses {
		switch vacant, failing := s.readModels.vacancies.vacant(c), s.readModels.progress.Failing(c.Name); {
		case c.Stopped != "":
			components["projection "+c.Name] = errors.New(c.Stopped)
		case !ours[c.Name]: // of another version
		case !c.UpdatedAt.IsZero() && models[c.Name].Name != "" && !c.Has(models[c.Name]):
			components["projection "+c.Name] = adminapi.Unready("its tables are of another version of Carillon")
		case c.Stranger != "":
			components["projection "+c.Name] = adminapi.Unready(
				"its lock is held by a session that is not Carillon's: " + c.Stranger)
		case vacant && failing != nil:
			components["projection "+c.Name] = errors.Join(adminapi.Unready("fails at each start, see the log"), failing)
		case vacant:
			components["projection "+c.Name] = adminapi.Unready("no process runs it")
		case c.Incomplete:
			components["projection "+c.Name] = adminapi.Unready(fmt.Sprintf("building, %d of %d", c.Built, c.BuildTo))
		}
	}
	return components
}

// warnings are the warnings of readiness although the server is ready.
func (s *servers) warnings() []string {
	var warnings []string
	if lost := s.stores.keys.Lost(); lost.Any() {
		warnings = append(warnings, "data keys: lost by "+lost.String())
	}
	warnings = slices.Concat(warnings, s.readModels.verifications.warnings(), s.webhooks.expiries.warnings(),
		s.managers.seal.Warnings())
	if s.managers.retirement != nil {
		warnings = append(warnings, s.managers.retirement.Warnings()...)
	}
	return warnings
}
