//go:build unix

package postgres

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	role     = "carillon" // the bootstrap superuser of the cluster
	database = "carillon"
	port     = "5432" // names the socket file
)

// durableSettings are those of a server whose acknowledged commits survive a power loss, sized for a machine that it
// shares with the program.
var durableSettings = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "128MB",
	"max_connections":    "100",

	// Seldom checkpoints: each one makes the next change of every page a full page image in the log.
	"max_wal_size":       "2GB",
	"checkpoint_timeout": "15min",
	"wal_compression":    "on",

	"effective_cache_size": "512MB",
	"random_page_cost":     "1.1",
	"jit":                  "off", // compiles longer than these queries run
	"timezone":             "UTC",

	// Neither statements nor row values reach the log: they may hold what a destination answered.
	"log_min_messages":        "warning",
	"log_min_error_statement": "panic",
	"log_error_verbosity":     "terse",
	"log_checkpoints":         "off",
	"log_timezone":            "UTC",
	"log_line_prefix":         "%m [%p] ",
}

// writeSettings writes the three configuration files into home.
func writeSettings(home, sockets, client string, cfg Config) error {
	settings := maps.Clone(durableSettings)
	maps.Copy(settings, cfg.Settings)
	maps.Copy(settings, map[string]string{
		"cluster_name":            clusterName(home),
		"update_process_title":    "on",
		"listen_addresses":        cfg.host(),
		"port":                    cfg.port(),
		"unix_socket_directories": sockets,
		"unix_socket_permissions": "0700",
		"hba_file":                filepath.Join(home, "pg_hba.conf"),
		"ident_file":              filepath.Join(home, "pg_ident.conf"),
	})
	return writeFiles(home, map[string]string{
		"postgresql.conf": renderSettings(settings),
		"pg_hba.conf":     admitted(cfg),
		"pg_ident.conf":   fmt.Sprintf("carillon %s %s\n", quoteIdent(client), role),
	})
}

// admitted returns the rules of who may connect. The first rule that fits counts: guests need a password, and the
// databases of the cluster itself are closed to them; no other user has a password.
func admitted(cfg Config) string {
	rules := "local all all peer map=carillon\n" //nolint:dupword // all databases, all users
	if cfg.Guests == "" {
		return rules
	}
	guests := "+" + cfg.Guests
	const own = "postgres,template1 "
	rules = "local " + own + guests + " reject\nlocal all " + guests + " scram-sha-256\n" + rules
	if cfg.host() != "" { // not samehost: it needs netlink, which a hardened service may be without
		for _, addresses := range []string{"127.0.0.0/8", "::1/128"} {
			rules += "host " + own + guests + " " + addresses + " reject\nhost all " + guests + " " + addresses +
				" scram-sha-256\n"
		}
	}
	return rules
}

// host is the address that the server listens at besides its socket; empty means none.
func (c Config) host() string {
	host, _, _ := net.SplitHostPort(c.Loopback)
	return host
}

// port is the same for socket and loopback: Postgres has one.
func (c Config) port() string {
	if _, asked, err := net.SplitHostPort(c.Loopback); err == nil {
		return asked
	}
	return port
}

func renderSettings(settings map[string]string) string {
	var b strings.Builder
	b.WriteString("# Written at every start. To change a setting: ALTER SYSTEM SET … in psql.\n")
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, quoteSetting(settings[name]))
	}
	return b.String()
}

func quoteSetting(value string) string {
	return strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(value)
}

func quoteIdent(name string) string {
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func writeFiles(dir string, files map[string]string) error {
	for name, content := range files {
		path := filepath.Join(dir, name)
		// The server's user reads them and may be another than the one that writes; they hold no secret.
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // see above
			return fmt.Errorf("write the settings of postgres: %w", err)
		}
		if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // whatever the umask
			return fmt.Errorf("write the settings of postgres: %w", err)
		}
	}
	return nil
}
