//go:build nightly

package app_test

import (
	"net/http"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
)

// No process has some of the roles: the others report missing runners, until one has them.
func TestConsumersWithoutRunnerAreNotReady(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject)
	other := p.beside(config.RoleDispatch, config.RoleDeliver)
	ready := func() bool { status, _ := p.admin(http.MethodGet, "/readyz"); return status == http.StatusOK }
	p.eventually("it is ready", ready)
	other.close()
	p.eventually("it is not ready", func() bool {
		status, body := p.admin(http.MethodGet, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "projection dispatcher (no process runs it)")
	})
	other.open()
	p.eventually("it is ready again", ready)
}
