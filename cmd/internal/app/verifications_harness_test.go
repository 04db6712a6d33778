package app_test

import (
	"slices"
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/app"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// verifyReadModels compares every read model, and the states of the process managers that have run, with the log.
func verifyReadModels(t testing.TB, client *adminclient.Client) {
	t.Helper()
	listed := must.Get(client.Projections(t.Context()))(t)
	for _, name := range app.Compared() {
		isProcess := !slices.ContainsFunc(app.ReadModels(), func(m projections.ReadModel) bool { return m.Name == name })
		ran := slices.ContainsFunc(listed, func(p adminapi.Projection) bool { return p.Name == name })
		if isProcess && !ran { // nobody has its role
			continue
		}
		if err := client.Verify(t.Context(), name, 100); err != nil {
			t.Fatalf("verify %s: %v", name, err)
		}
		var found adminapi.Projection
		poll(t, patience, name+" is compared with the log", func() bool {
			list, err := client.Projections(t.Context())
			for _, p := range list {
				if p.Name == name {
					found = p
				}
			}
			return err == nil && (found.Verifying == nil || found.Verifying.Error != "")
		})
		switch v := found.Verified; {
		case v == nil || found.Verifying != nil:
			t.Errorf("%s is not verified: %+v", name, found.Verifying)
		case v.Differing > 0:
			t.Errorf("%s differs from the log in %d of %d rows: %v", name, v.Differing, v.Rows, v.Differences)
		default:
			t.Logf("%s agrees with the log: %d rows", name, v.Rows)
		}
	}
}
