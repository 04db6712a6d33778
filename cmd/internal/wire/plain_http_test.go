package wire

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"carillon/eventstore/storetest/assert"
)

// A proxy that says that a part of the way was plain is believed, trusted or not.
func TestRequireTLSForwardedProto(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	const local, proxy, other = "127.0.0.1:1", "203.0.113.9:1", "192.0.2.1:1"
	for name, tt := range map[string]struct {
		peer   string
		tls    bool
		protos []string
		want   int
	}{
		"local":                         {peer: local, want: 200},
		"local proxy, https":            {peer: local, protos: []string{"https"}, want: 200},
		"local proxy, http":             {peer: local, protos: []string{"http"}, want: 401},
		"local proxy, nothing":          {peer: local, protos: []string{""}, want: 401},
		"trusted, https twice":          {peer: proxy, protos: []string{"https", "HTTPS"}, want: 200},
		"trusted, http after https":     {peer: proxy, protos: []string{"https", "http"}, want: 401},
		"trusted, http before https":    {peer: proxy, protos: []string{"http", "https"}, want: 401},
		"trusted, both in one line":     {peer: proxy, protos: []string{"https, http"}, want: 401},
		"trusted, https over two hops":  {peer: proxy, protos: []string{"https,https"}, want: 200},
		"other, https":                  {peer: other, protos: []string{"https"}, want: 401},
		"other by TLS":                  {peer: other, tls: true, want: 200},
		"proxy by TLS, asked in plain":  {other, true, []string{"http"}, 401},
		"proxy by TLS, asked by https":  {other, true, []string{"https"}, 200},
		"no address, nothing forwarded": {peer: "@", want: 401},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events/types", nil)
		r.RemoteAddr, r.Header["X-Forwarded-Proto"] = tt.peer, tt.protos
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		w := httptest.NewRecorder()
		RequireTLS(trusted, func(*http.Request) Surface { return Events })(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
		assert.True(t, w.Code == tt.want, "%s: %d, want %d", name, w.Code, tt.want)
	}
}
