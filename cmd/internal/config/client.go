package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
)

// Client has the settings of the subcommands that talk to a running server. They are the server's own variables.
type Client struct {
	AdminAddr  string `env:"CARILLON_ADMIN_ADDR" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of the server's admin API, or its https:// URL (${default})."`
	DataDir    string `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"The server's data directory, which contains its admin token (${default})."`
	AdminToken Secret `env:"CARILLON_ADMIN_TOKEN" placeholder:"TOKEN" help:"The admin token, if it is not in the data directory."`
}

// BaseURL is the admin API's URL, without a slash at the end.
func (c *Client) BaseURL() (string, error) {
	if hasScheme(c.AdminAddr, "http", "https") {
		return strings.TrimRight(c.AdminAddr, "/"), nil
	}
	host, port, err := net.SplitHostPort(c.AdminAddr)
	if err != nil {
		return "", wrong("CARILLON_ADMIN_ADDR", "must be host:port or an https:// URL; it is %q", c.AdminAddr)
	}
	if isUnspecified(host) {
		host = "127.0.0.1" // the server listens everywhere, also here
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// Token is the admin token: as given, or from the data directory.
func (c *Client) Token() (string, error) {
	if c.AdminToken != "" {
		return c.AdminToken.Reveal(), nil
	}
	path := filepath.Join(c.DataDir, AdminTokenFile)
	token, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("no admin token: %s does not exist. Start the server first (carillon serve), name its data "+
			"directory (CARILLON_DATA_DIR or --data-dir), or set CARILLON_ADMIN_TOKEN", path)
	}
	return token, err
}

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
