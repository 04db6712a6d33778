package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
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
