//go:build nightly

package app_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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
	api, admin, store := freePort(t), freePort(t), freePort(t)
	data := filepath.Join(dir, "data")
	victims := map[string]*child{
		"node": {t: t, env: []string{childRole + "=node", "CHILD_API=" + store, "CHILD_DATA=" + filepath.Join(dir, "store")}},
		"server": {t: t, env: []string{
			childRole + "=server", "CHILD_API=" + api, "CHILD_ADMIN=" + admin, "CHILD_DATA=" + data,
			"CHILD_STORE=esdb://" + store + "?tls=false", "CHILD_DATABASE=" + database.URL(),
		}},
	}
	for _, victim := range victims {
		victim.start()
	}
	t.Cleanup(func() {
		for _, victim := range victims {
			victim.kill()
		}
	})
	w := newWorkload(t, data, "http://"+api, "http://"+admin)
	stop := w.begin()
	killed := map[string]int{}
	for range kills {
		time.Sleep(time.Duration(100+rand.IntN(600)) * time.Millisecond) //nolint:gosec // chance is the point, and so is the sleep: kills come at any moment
		name := []string{"node", "server", "postgres"}[rand.IntN(3)]     //nolint:gosec // chance is the point
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
	t.Logf("%d kills %v; %d events acknowledged, all delivered; %d deliveries came, %d of them again", kills, killed, len(acknowledged), w.total, w.total-len(acknowledged))
}
