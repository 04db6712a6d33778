package config

import (
	"net"
	"net/netip"
	"strings"
)

// API has the settings of the subcommands that use the API with a key, as any program does.
type API struct {
	HTTPAddr string `name:"http-addr" env:"CARILLON_HTTP_ADDR" default:"127.0.0.1:8080" help:"Address or URL of the API."`
	APIKey   Secret `name:"key" env:"CARILLON_API_KEY" help:"API key. Empty: the development key in the data directory."`
	DataDir  string `env:"CARILLON_DATA_DIR" default:"./data" help:"Data directory of a development server (${default})."`
	TLSCert  string `name:"tls-cert" env:"CARILLON_TLS_CERT" help:"Certificate of an API that no known authority signed."`
}

// BaseURL returns the API's URL, without a slash at the end. A key is never sent in the clear over a network.
func (c *API) BaseURL() (string, error) {
	const variable = "CARILLON_HTTP_ADDR"
	if hasScheme(c.HTTPAddr, "https") {
		return strings.TrimRight(c.HTTPAddr, "/"), nil
	}
	address, plain := strings.CutPrefix(strings.TrimRight(c.HTTPAddr, "/"), "http://")
	host, port, err := net.SplitHostPort(address)
	switch {
	case err != nil:
		return "", wrong(variable, "must be host:port or an https:// URL; it is %q", c.HTTPAddr)
	case isUnspecified(host):
		host = "127.0.0.1" // the server listens everywhere, also here
	}
	address = net.JoinHostPort(host, port)
	switch {
	case onLoopback(address) && c.TLSCert == "":
		return "http://" + address, nil
	case plain:
		return "", wrong(variable, "must begin with https:// to protect the key on the network; it is %q", c.HTTPAddr)
	}
	return "https://" + address, nil
}

// OnThisMachine reports whether the API is at an address that only this machine can reach.
func (c *API) OnThisMachine() bool {
	base, err := c.BaseURL()
	_, address, _ := strings.Cut(base, "://")
	address, _, _ = strings.Cut(address, "/")
	if _, _, portless := net.SplitHostPort(address); portless != nil {
		address = net.JoinHostPort(strings.Trim(address, "[]"), "443")
	}
	return err == nil && onLoopback(address)
}

// isUnspecified reports whether a server that listens at a host listens everywhere.
func isUnspecified(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "" || err == nil && address.IsUnspecified()
}
