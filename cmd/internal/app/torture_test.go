//go:build nightly

package app_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"carillon/cmd/internal/adminclient"
	"carillon/projections/pgtest"
)

// Server, event store and Postgres are killed at random moments under load. Afterwards every event that was
// acknowledged has been delivered, signed, and whatever came twice came under the same webhook-id.
func TestTortureDelivery(t *testing.T) {
	t.Parallel()
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		kills = n
	}
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	database := pgtest.NewServer(t)
	data := filepath.Join(dir, "data")
	node, store := startNodeChild(t, dir)
	server, api, admin := startServerChild(t, data, store, database.URL())
	victims := map[string]*child{"node": node, "server": server}
	w := newWorkload(t, data, api, admin)
	stop := w.begin()
	killed := map[string]int{}
	for range kills {
		time.Sleep(time.Duration(100+rand.IntN(600)) *
			time.Millisecond) //nolint:gosec // chance is the point, and so is the sleep: kills come at any moment
		name := []string{"node", "server", "postgres"}[rand.IntN(3)] //nolint:gosec // chance is the point
		killed[name]++
		if name == "postgres" {
			database.Kill()
			database.Restart()
			continue
		}
		victims[name].kill()
		victims[name].start()
	}
	acknowledged := stop()
	w.reconcile(acknowledged)
	verifyReadModels(t, adminclient.New(admin, w.token))
	t.Logf("%d kills %v; %d events acknowledged, all delivered; %d deliveries came, %d of them again", kills, killed,
		len(acknowledged), w.total, w.total-len(acknowledged))
}
