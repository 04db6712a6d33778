package app

import (
	"crypto/tls"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/source"
	"carillon/cmd/internal/config"
	"carillon/command/collect"
	"carillon/command/collect/sources/site"
	"carillon/command/egress"
	"carillon/docs"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestConnectionsLeaveFilesToOthers(t *testing.T) {
	t.Parallel()
	for files, want := range map[uint64][2]int{
		0: {2048, maxIdle}, 256: {48, 16}, 1024: {192, 64}, 4096: {1344, 448}, 12_800: {2048, maxIdle}, 20_000: {2048,
			maxIdle}, 1<<64 - 1: {2048, maxIdle},
	} {
		inFlight, idle := connectionsFor(files)
		assert.True(t, inFlight == want[0] && idle == want[1],
			"%d files: %d requests and %d idle connections, want %v", files, inFlight, idle, want)
		api, admin := callersFor(files)
		others := min(filesOfOthers, files/2)
		total, least := uint64(inFlight+idle+api+admin)+others-others/8, min(int(files/16), 512) //nolint:gosec // bounded
		if files > 0 && (total > files || admin < least) || api < inFlight || admin < 16 {
			t.Errorf("%d files: %d connections to the API, %d to the admin API", files, api, admin)
		}
	}
	assert.True(t, filesAllowed() != 0, "it is not known how many files this process may have open")
}

// Many destinations may be at one host, as those of a vendor's customers are: while fewer connections were kept than
// requests are in flight, others were opened each time, and a delivery cost a third more.
func TestConnectionsToSharedHostAreKept(t *testing.T) {
	t.Parallel()
	policy, options, err := DeliveryEgress(&config.Config{})
	must.OK(t, err)
	kept := egress.NewTransport(policy, options).MaxIdleConnsPerHost
	inFlight, _ := connectionsFor(filesAllowed())
	assert.True(t, kept == inFlight, "%d connections to one host are kept of %d", kept, inFlight)
}

func TestBuildFromToolchain(t *testing.T) {
	t.Parallel()
	want := Build{docs.Version(), "c978e10ad4d15e29a5dec5bec9277ead110c2731", "2026-11-26T15:49:26Z"}
	got := buildOf(&debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: want.Commit},
		{Key: "vcs.time", Value: want.Date},
	}})
	assert.True(t, got == want && got.Version != "", "%+v, want %+v", got, want)
}

func TestBuildInfoIsAMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(buildInfo(Build{Version: "1.0.0", Commit: "c978e10", Date: "2026-11-26T15:49:26Z"}))
	families, err := registry.Gather()
	must.True(t, err == nil && len(families) == 1 && len(families[0].GetMetric()) == 1, "gathered %v: %v", families, err)
	labels := map[string]string{}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	if families[0].GetName() != "carillon_build_info" || labels["version"] != "1.0.0" || labels["commit"] != "c978e10" ||
		labels["goversion"] == "" {
		t.Errorf("%s%v", families[0].GetName(), labels)
	}
}

// peer is a connection to an address.
type peer struct {
	net.Conn

	address net.Addr
}

func (p peer) RemoteAddr() net.Addr { return p.address }

func TestPlainConnectionsOverANetwork(t *testing.T) {
	t.Parallel()
	far, near := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	connections := map[string]struct {
		conn    net.Conn
		inPlain bool
	}{
		"over a network":      {peer{address: far}, true},
		"over TLS":            {tls.Client(peer{address: far}, &tls.Config{MinVersion: tls.VersionTLS12}), false},
		"to this machine":     {peer{address: near}, false},
		"to IPv6 loopback":    {peer{address: &net.TCPAddr{IP: net.IPv6loopback}}, false},
		"to a socket of Unix": {peer{address: &net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432"}}, false},
	}
	for name, tt := range connections {
		assert.Equal(t, overNetworkInPlain(tt.conn), tt.inPlain, "a connection %s: reported", name)
	}
	stores := map[string]string{
		"": "", "esdb://node1:2113?tls=true": "", "esdb://u:p@node1:2113,node2:2113": "",
		"esdb://localhost:2113?tls=false": "",
		"esdb://127.0.0.1:2113?tls=false": "", "esdb://[::1]:2113/?tls=false": "",
		"esdb://u:p@node1:2113?tls=false":                       "node1",
		"esdb://127.0.0.1:1,192.0.2.1:2?a=b&TLS=False":          "192.0.2.1",
		"kurrentdb+discover://cluster.example?tls=false":        "cluster.example",
		"esdb://u:p%40x@[2001:db8::1]:2113/?tls=false&gossip=1": "2001:db8::1",
	}
	for address, want := range stores {
		assert.Equal(t, plainEventStore(address), want, "%s … is reported", address)
	}
	databases := map[string]bool{
		"postgres://u@keys.example/k": true, "postgres://u@keys.example/k?sslmode=disable": true,
		"postgres://u@keys.example/k?sslmode=require": false,
		"postgres://u@localhost/k":                    false, "postgres:///k?host=/run/postgresql": false,
		"postgres://u@127.0.0.1,keys.example/k?sslmode=prefer": true,
	}
	for address, want := range databases {
		cfg := must.Get(pgconn.ParseConfig(address))(t)
		assert.Equal(t, mayBePlain(cfg), want, "%s: reported", address)
	}
}

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
	assert.Slices(t, slices.Sorted(maps.Keys(collectors)), slices.Sorted(slices.Values(source.Types())), "collectors of")
	page := collect.Source{Type: source.TypeSite, URL: server.URL}
	for _, start := range collectors[site.Type].Start(page) {
		_, err := collectors[site.Type].Read(t.Context(), page, collect.Known{Link: start})
		assert.Is(t, err, collect.ErrBlockedAddress, "%s", start.Address)
	}
	n := asked.Load()
	assert.True(t, n <= 0, "it was asked %d times", n)
}
