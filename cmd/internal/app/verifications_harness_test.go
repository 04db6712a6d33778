package app_test

import (
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/app"
)

// verifyReadModels compares every read model with the log.
func verifyReadModels(t testing.TB, client *adminclient.Client) {
	t.Helper()
	for _, m := range app.ReadModels() {
		if err := client.Verify(t.Context(), m.Name, 100); err != nil {
			t.Fatalf("verify %s: %v", m.Name, err)
		}
		var found adminapi.Projection
		poll(t, patience, m.Name+" is compared with the log", func() bool {
			list, err := client.Projections(t.Context())
			for _, p := range list {
				if p.Name == m.Name {
					found = p
				}
			}
			return err == nil && (found.Verifying == nil || found.Verifying.Error != "")
		})
		switch v := found.Verified; {
		case v == nil || found.Verifying != nil:
			t.Errorf("%s is not verified: %+v", m.Name, found.Verifying)
		case v.Differing > 0:
			t.Errorf("%s differs from the log in %d of %d rows: %v", m.Name, v.Differing, v.Rows, v.Differences)
		default:
			t.Logf("%s agrees with the log: %d rows", m.Name, v.Rows)
		}
	}
}
