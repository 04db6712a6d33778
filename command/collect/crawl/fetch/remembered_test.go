package fetch

import (
	"net/url"
	"strconv"
	"testing"
)

// TestRememberedHostsAreBounded requests many hosts in a short time; the newest stay.
func TestRememberedHostsAreBounded(t *testing.T) {
	t.Parallel()
	f := &Fetcher{hosts: map[string]*host{}}
	for n := range 3 * maxHosts {
		u := &url.URL{Scheme: "https", Host: "h" + strconv.Itoa(n) + ".example"}
		if h := f.host(u); f.host(u) != h {
			t.Fatalf("host %d was forgotten at once", n)
		}
		if len(f.hosts) > maxHosts {
			t.Fatalf("%d hosts are remembered", len(f.hosts))
		}
	}
}
