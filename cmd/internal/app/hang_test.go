//go:build nightly

package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections"
	"carillon/projections/pgtest"
)

// besideAHolder starts a process in which every consumer runs, and then one of these roles in this process, on the same
// event store and Postgres.
func besideAHolder(t *testing.T, roles ...string) (p *process, holder *child) {
	t.Helper()
	t.Parallel()
	dir := shortDir(t)
	data, database := filepath.Join(dir, "data"), pgtest.URL(t)
	_, store := startNodeChild(t, dir)
	server, _, _ := startServerChild(t, data, store, database)
	p = &process{TB: t, organization: organization, cfg: config.Config{
		HTTPAddr:              "127.0.0.1:0",
		AdminAddr:             "127.0.0.1:0",
		DataDir:               data,
		Dev:                   true,
		Roles:                 roles,
		EventStoreURL:         config.Address(store),
		DatabaseURL:           config.Address(database),
		DeliveryTimeout:       30 * time.Second,
		DeliveryRetrySchedule: []time.Duration{10 * time.Millisecond},
		AutoDisableAfter:      100,
		AutoDisableMinStreak:  time.Hour,
	}}
	p.eventually("the other process is up", func() bool { _, err := dev.ReadKey(data); return err == nil })
	p.open()
	other := fmt.Sprintf(":%d", server.pid())
	p.eventually("the other process runs all", func() bool { return p.ranBy(other) })
	return p, server
}

// ranBy reports whether one process runs every consumer that it has the role for.
func (p *process) ranBy(process string) bool {
	p.Helper()
	statuses, err := projections.Statuses(p.Context(), p.app.Queries.Pool)
	if err != nil {
		p.Fatal(err)
	}
	n := 0
	for _, s := range statuses {
		if strings.HasSuffix(s.Process, process) {
			n++
		}
	}
	const processManagers = 4 // of the roles that it has
	return n == len(app.ReadModels())+processManagers
}

func (p *process) readyz() (status int, body string) {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.app.AdminAddr().String()+"/readyz",
		http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	status, raw := p.send(request)
	return status, string(raw)
}

// The holder of all locks is stopped. The process beside it takes over within 10 s: changes can be read, published
// events arrive, and the status names the process.
func TestHangingProcessIsReplaced(t *testing.T) {
	p, holder := besideAHolder(t, config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver)
	_, arrived := p.subscribed(func(int) int { return http.StatusOK })
	p.publish()
	p.await(arrived)
	holder.signal(syscall.SIGSTOP)
	stopped := time.Now()
	p.publish()
	p.await(arrived)
	p.eventually("changes can be read", func() bool {
		status, _ := p.try(http.MethodPut, "/events/destinations/later", map[string]any{
			"name":   "Later",
			"config": map[string]any{"url": "https://127.0.0.1/hook"},
		})
		found, _ := p.try(http.MethodGet, "/events/destinations/later", nil)
		return status < http.StatusBadRequest && found == http.StatusOK
	})
	p.Logf("taken over after %s", time.Since(stopped)) // within 10 s if the machine isn't busy
	p.eventually("this process runs all", func() bool { return p.ranBy(fmt.Sprintf(":%d", os.Getpid())) })
	holder.signal(syscall.SIGCONT)
	p.eventually("it is ready", func() bool { // collecting has been in no process meanwhile
		status, _ := p.readyz()
		return status == http.StatusOK
	})
	p.publish()
	p.await(arrived)
}

// Only one process has the roles, and it is stopped: the others report missing runners, until it continues.
func TestConsumersWithoutRunnerAreNotReady(t *testing.T) {
	p, holder := besideAHolder(t, config.RoleAPI)
	holder.signal(syscall.SIGSTOP)
	p.eventually("it is not ready", func() bool {
		status, body := p.readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(body, "projection deliveries (no process runs it)")
	})
	holder.signal(syscall.SIGCONT)
	p.eventually("it is ready", func() bool { status, _ := p.readyz(); return status == http.StatusOK })
}
