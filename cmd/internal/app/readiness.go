package app

import (
	"context"
	"errors"
	"fmt"

	"carillon/cmd/internal/adminapi"
	"carillon/projections"
)

// errFull names the repair for the operator.
var errFull = errors.New("the embedded event store refuses appends: its disk has less than 64 MiB of free space")

// ready reports for each dependency of this process whether it works now.
func (a *App) ready(ctx context.Context) map[string]error {
	components := map[string]error{}
	if components["eventStore"] = a.storeReach.Err(); components["eventStore"] == nil {
		_, components["eventStore"] = a.base.store.Head(ctx)
	}
	if a.base.full != nil {
		components["disk"] = nil
		if a.base.full() {
			components["disk"] = errFull
		}
	}
	if a.keyless.Load() {
		components["development key"] = adminapi.Unready("not made yet")
	}
	components["data keys"] = a.keysReady()
	statuses, err := a.statuses(ctx)
	components["postgres"] = err
	ours := map[string]bool{}
	for _, c := range consumers() {
		ours[c.name] = true
	}
	for _, s := range statuses {
		switch vacant := a.vacancies.vacant(s); {
		case s.Stopped != "":
			components["projection "+s.Name] = errors.New(s.Stopped)
		case !ours[s.Name]: // of another version
		case s.Stranger != "":
			components["projection "+s.Name] = adminapi.Unready(
				"its lock is held by a session that is not Carillon's: " + s.Stranger)
		case vacant:
			components["projection "+s.Name] = adminapi.Unready("no process runs it")
		case s.Incomplete:
			components["projection "+s.Name] = adminapi.Unready(fmt.Sprintf("building, %d of %d", s.Built, s.BuildTo))
		}
	}
	return components
}

// statuses asks Postgres how far each consumer is, unless it is known to be away.
func (a *App) statuses(ctx context.Context) ([]projections.Status, error) {
	if err := a.databaseReach.Err(); err != nil {
		return nil, err
	}
	return projections.Statuses(ctx, a.base.pool)
}
