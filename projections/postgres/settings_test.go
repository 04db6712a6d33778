package postgres

import (
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
)

// Postgres finds out addresses of the host by netlink, which the systemd unit does not allow.
func TestAdmittedNamesLoopbackAddresses(t *testing.T) {
	t.Parallel()
	if rules := admitted(Config{Guests: "readers"}); strings.Contains(rules, "host ") {
		t.Errorf("without an address: %s", rules)
	}
	rules := admitted(Config{Guests: "readers", Loopback: "127.0.0.1:5433"})
	assert.True(t, !strings.Contains(rules, "same") &&
		strings.Contains(rules, "host all +readers 127.0.0.0/8 scram-sha-256\n"), "with an address: %s", rules)
}
