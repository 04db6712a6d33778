package egress_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestConnectionsLeaveFromTheirAddress: the receiver sees the configured one of each family, and no connection if there
// is none of its family.
func TestConnectionsLeaveFromTheirAddress(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		_, _ = fmt.Fprint(w, host)
	}))
	defer server.Close()
	policy := egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	ask := func(from ...string) (string, error) {
		var options egress.Options
		for _, address := range from {
			options.From = append(options.From, netip.MustParseAddr(address))
		}
		transport := egress.NewTransport(policy, options)
		defer transport.CloseIdleConnections()
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody))(t)
		response, err := transport.RoundTrip(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		body := make([]byte, 100)
		n, _ := response.Body.Read(body)
		return string(body[:n]), nil
	}
	if got, err := ask(); got != "127.0.0.1" {
		t.Errorf("by default it leaves from %s, %v", got, err)
	}
	for _, from := range [][]string{{"127.0.0.7"}, {"::1", "127.0.0.7"}} {
		got, err := ask(from...)
		assert.True(t, got == "127.0.0.7", "from %s: %q, %v", from, got, err)
	}
	if got, err := ask("::1"); err == nil || !strings.Contains(err.Error(), "family") ||
		egress.Classify(err) != delivery.FailureConnection {
		t.Errorf("from another family: %q, %v", got, err)
	}
	if got, err := ask("192.0.2.1"); err == nil || !strings.Contains(err.Error(), "leave from 192.0.2.1") {
		t.Errorf("from an address of another machine: %q, %v", got, err)
	}
}

// TestHostileDestinationsInDeniedRanges: an operator's own public ranges are closed when a URL is written and when it
// is dialled, in each spelling, whatever is allowed beside.
func TestHostileDestinationsInDeniedRanges(t *testing.T) {
	t.Parallel()
	policy := egress.Policy{
		Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("8.8.8.8/32")},
		Deny: []netip.Prefix{netip.MustParsePrefix("8.8.0.0/16"), netip.MustParsePrefix("2606:4700::/32"),
			netip.MustParsePrefix("127.0.0.9/32")},
	}
	for _, address := range []string{"8.8.8.8", "8.8.0.1", "::ffff:8.8.4.4", "64:ff9b::808:404", "2606:4700::1111",
		"2001:4860::5efe:808:404", "127.0.0.9"} {
		err := policy.Check(netip.MustParseAddr(address))
		assert.True(t, err != nil && strings.Contains(err.Error(), "does not connect to"), "%s: %v", address, err)
	}
	for _, address := range []string{"8.9.0.1", "1.1.1.1", "2606:4701::1", "127.0.0.8"} {
		assert.Is(t, policy.Check(netip.MustParseAddr(address)), nil, "%s", address)
	}
	for _, url := range []string{"https://8.8.8.8/x", "https://134744072/x", "https://[2606:4700::1111]/x",
		"https://0x8.010.8.8/x"} {
		_, err := policy.CheckURL("config.url", url)
		assert.True(t, err != nil, "%s may be written", url)
	}
	// At dial time, whatever the name was when it was written.
	transport := egress.NewTransport(policy, egress.Options{})
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.9:1/", http.NoBody))(t)
	response, err := transport.RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	assert.Equal(t, egress.Classify(err), delivery.FailureBlocked, "dialled: %v", err)
}
