//go:build nightly

package app_test

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/apiclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/listen"
)

// TestListenBesideAnotherDeliverer listens at one process for the deliveries of another.
func TestListenBesideAnotherDeliverer(t *testing.T) {
	address := startNode(t)
	p := start(t, func(c *config.Config) {
		c.EventStoreURL = config.Address("esdb://" + address + "?tls=false")
		c.Roles = []string{config.RoleAPI, config.RoleProject}
	})
	other := &process{TB: t, cfg: p.cfg, organization: organization}
	other.cfg.HTTPAddr, other.cfg.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
	other.cfg.Roles = []string{config.RoleDispatch, config.RoleDeliver}
	other.open()
	client, err := apiclient.New("http://"+p.app.APIAddr().String(), p.key, "")
	if err != nil {
		t.Fatal(err)
	}
	out, printed := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- listen.Run(ctx, listen.Options{
			API:     client,
			LockDir: t.TempDir(),
			Secret:  "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
			Types:   []string{"*"},
			Zone:    time.UTC,
			JSON:    true,
			Out:     printed,
			Notes:   t.Output(),
		})
	}()
	p.eventually("the subscription is there", func() bool {
		var subscriptions int
		row := p.app.Queries.Pool.QueryRow(t.Context(), "SELECT count(*) FROM carillon.listeners")
		return row.Scan(&subscriptions) == nil && subscriptions == 1
	})
	p.publish()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"verified":true`) ||
		!strings.Contains(lines.Text(), `"answered":204`) {
		t.Errorf("heard %s", lines.Text())
	}
	p.eventually("it is on record", func() bool {
		_, list := p.try("GET", "/events/deliveries", nil)
		items, _ := list["items"].([]any)
		if len(items) != 1 {
			return false
		}
		first, _ := items[0].(map[string]any)
		return first["status"] == "succeeded"
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := p.total("/events/destinations"); left != 0 {
		t.Errorf("%v destinations are left", left)
	}
}
