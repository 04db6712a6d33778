package fetch

import (
	"net/url"
	"strconv"
	"testing"

	"carillon/eventstore/storetest/must"
)

// TestRememberedHostsAreBounded requests many hosts in a short time; the newest stay.
func TestRememberedHostsAreBounded(t *testing.T) {
	t.Parallel()
	f := &Fetcher{hosts: map[string]*host{}}
	for n := range 3 * maxHosts {
		u := &url.URL{Scheme: "https", Host: "h" + strconv.Itoa(n) + ".example"}
		first := f.host(u)
		must.True(t, f.host(u) == first, "host %d was forgotten at once", n)
		must.True(t, len(f.hosts) <= maxHosts, "%d hosts are remembered", len(f.hosts))
	}
}
