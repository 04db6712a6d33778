package app_test

import (
	"net"
	"testing"

	"carillon/cmd/internal/config"
)

// A process that does not answer the API keeps away from its address: another one may have it, and nobody waits at a
// door that is never opened.
func TestOnlyTheAPIRoleListensForTheAPI(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	start(t, func(c *config.Config) {
		c.HTTPAddr = taken.Addr().String()
		c.Roles = []string{config.RoleProject, config.RoleDispatch, config.RoleDeliver}
	})
}
