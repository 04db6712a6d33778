package wire

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// KnownHost refuses requests that name another host than an address, localhost or one of the names. A page in a browser
// on this machine can let its own name lead here (DNS rebinding) and would read the answers; then the request names it.
func KnownHost(names []string, surface SurfaceOf) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !known(r.Host, names) {
				surface(r).WriteError(w, r, &Failure{
					Kind: Misdirected,
					Issue: "this server is not known by the name in the header Host: " +
						"ask for its address, or have its operator add the name to CARILLON_ADMIN_HOSTS",
				})
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// known reports whether the header Host may have this value. HTTP/1.0 needs none; browsers always send one.
func known(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil || host == "" || host == "localhost" {
		return true
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return strings.EqualFold(strings.TrimSuffix(name, "."), host)
	})
}
