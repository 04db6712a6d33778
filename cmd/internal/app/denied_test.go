package app

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Denied ranges apply to collectors, too, and precede allowed ones.
func TestCollectorsKeepFromDenied(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	collectors := must.Get(Collectors(Collecting{
		Allow:       loopback,
		Deny:        loopback,
		NoHostDelay: true,
		Now:         time.Now,
	}))(t)
	page := collect.Source{Type: source.TypeSite, URL: server.URL}
	for _, start := range collectors[site.Type].Start(page) {
		_, err := collectors[site.Type].Read(t.Context(), page, collect.Known{Link: start})
		assert.Is(t, err, collect.ErrBlockedAddress, "%s", start.Address)
	}
	n := asked.Load()
	assert.True(t, n <= 0, "it was asked %d times", n)
}
