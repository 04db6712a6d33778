package app

import (
	"context"
	"errors"
	"fmt"

	"carillon/cmd/internal/adminapi"
	"carillon/projections"
)

// errFull tells the operator what has to be mended.
var errFull = errors.New("the embedded event store refuses appends: its disk has less than 64 MiB of free space")

// ready says of each thing that this process needs whether it works now.
func (a *App) ready(ctx context.Context) map[string]error {
	components := map[string]error{}
	_, components["eventStore"] = a.base.store.Head(ctx)
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
	statuses, err := projections.Statuses(ctx, a.base.pool)
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
		case vacant:
			components["projection "+s.Name] = adminapi.Unready("no process runs it")
		case s.Incomplete:
			components["projection "+s.Name] = adminapi.Unready(fmt.Sprintf("building, %d of %d", s.Built, s.BuildTo))
		}
	}
	return components
}
