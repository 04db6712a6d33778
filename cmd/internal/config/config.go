// Package config has all settings of Carillon: each is a flag and a CARILLON_* variable, and is checked before anything
// starts. An error names the setting and says how to mend it. Secrets and addresses that hold passwords never show in
// logs or error texts.
package config

import (
	"cmp"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"carillon/command/mtls"
)

// Config has the settings of a server. Call Validate before use, and Secrets for the keys that are made once.
type Config struct {
	HTTPAddr  string   `name:"http-addr" env:"CARILLON_HTTP_ADDR" default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address of the API (${default})."`
	AdminAddr string   `env:"CARILLON_ADMIN_ADDR" default:"127.0.0.1:8081" placeholder:"HOST:PORT" help:"Address of the admin API, health and metrics (${default})."`
	DataDir   string   `env:"CARILLON_DATA_DIR" default:"./data" placeholder:"DIR" help:"Data directory: keys, and the embedded stores (${default})."`
	Roles     []string `env:"CARILLON_ROLES" default:"api,project,dispatch,deliver,collect" enum:"api,project,dispatch,deliver,collect" placeholder:"ROLE" help:"Roles of this process: ${default}. Processes that share one event store and one Postgres may split them."`

	// Sockets that take requests instead of new ones at the addresses. Optional.
	HTTPListener, AdminListener net.Listener `kong:"-"`
	// NoHostDelay collectors ask a host without pauses, for measurements with hosts of one's own.
	NoHostDelay bool `kong:"-"`
	// SearchEvery is how often deliveries that became due are searched for. Optional.
	SearchEvery time.Duration `kong:"-"`

	Dev bool `env:"CARILLON_DEV" help:"For a developer's machine: make an organization with an API key on the first start and print how to use it; let webhooks and collectors reach loopback addresses; trust receivers of the development certificate authority."`

	EventStoreURL Address `name:"eventstore-url" env:"CARILLON_EVENTSTORE_URL" placeholder:"URL" help:"An EventStoreDB, for example esdb://user@node1:2113,node2:2113?tls=true. Empty: an embedded node in the data directory."`
	DatabaseURL   Address `env:"CARILLON_DATABASE_URL" placeholder:"URL" help:"A Postgres 15 or newer, for example postgres://user@host:5432/carillon. Empty: a private Postgres in the data directory."`

	EventStorePassword Secret `name:"eventstore-password" env:"CARILLON_EVENTSTORE_PASSWORD" placeholder:"PASSWORD" help:"Password of the user that --eventstore-url names, if that has none."`
	DatabasePassword   Secret `env:"CARILLON_DATABASE_PASSWORD" placeholder:"PASSWORD" help:"Password of the user that --database-url names: any text, while an address needs it percent-encoded."`

	DatabaseDirectURL   Address `name:"database-direct-url" env:"CARILLON_DATABASE_DIRECT_URL" placeholder:"URL" help:"The same Postgres without a pooler, if the other address leads through one in transaction mode: for the session that holds the locks of this process."`
	DatabaseConnections int     `env:"CARILLON_DATABASE_CONNECTIONS" default:"12" placeholder:"N" help:"Maximum Postgres sessions of this process (${default}), besides one for its locks."`

	PostgresBin string `env:"CARILLON_POSTGRES_BIN" placeholder:"DIR" help:"Directory of the Postgres binaries. Empty: the usual places."`

	AnalyticsAddr string `env:"CARILLON_ANALYTICS_ADDR" placeholder:"HOST:PORT" help:"Loopback address at which the private Postgres takes the logins of analysts, such as 127.0.0.1:5433. Empty: its socket only."`

	MasterKey      Secret  `env:"CARILLON_MASTER_KEY" placeholder:"BASE64" help:"32 bytes in base64 that wrap the data keys, and after a comma the key that replaces it by \"carillon keys rotate-master\". Empty: generated once in the data directory."`
	KeyStore       Address `env:"CARILLON_KEY_STORE" placeholder:"DIR|URL" help:"A copy of the data keys, which Postgres keeps then: a directory that all processes share, or a second Postgres. Empty: none, and if the event store or Postgres is in the data directory, \"keys\" there keeps the data keys."`
	AcceptLostKeys bool    `env:"CARILLON_ACCEPT_LOST_KEYS" help:"Start although live destinations have lost their data keys: their secrets and headers stay unreadable."`
	AdminToken     Secret  `env:"CARILLON_ADMIN_TOKEN" placeholder:"TOKEN" help:"Bearer token of the admin API, 32 characters or more. Empty: generated once in the data directory."`

	SealKey Secret  `env:"CARILLON_SEAL_KEY" placeholder:"BASE64" help:"32 bytes in base64: the Ed25519 key that signs tree heads of the log. Empty: generated once in the data directory."`
	SealTo  Address `env:"CARILLON_SEAL_TO" placeholder:"FILE|URL" help:"A file, or an https:// address, that gets each tree head: somewhere that this server's operators can't change. Empty: none."`

	DeliveryAllowCIDRs    Prefixes        `name:"delivery-allow-cidrs" env:"CARILLON_DELIVERY_ALLOW_CIDRS" placeholder:"CIDR,…" help:"Private address ranges that webhooks may reach, for development."`
	EgressDenyCIDRs       Prefixes        `name:"egress-deny-cidrs" aliases:"delivery-deny-cidrs" env:"CARILLON_EGRESS_DENY_CIDRS,CARILLON_DELIVERY_DENY_CIDRS" placeholder:"CIDR,…" help:"Address ranges that webhooks and collectors never reach, such as public ones of your own; precedes allowed ranges."`
	EgressAddr            Addresses       `env:"CARILLON_EGRESS_ADDR" placeholder:"ADDRESS,…" help:"Source address of webhooks and collectors: one of IPv4, one of IPv6, or both. If only one family is named, the other is not used. Empty: chosen by the system."`
	CollectAllowCIDRs     Prefixes        `name:"collect-allow-cidrs" env:"CARILLON_COLLECT_ALLOW_CIDRS" placeholder:"CIDR,…" help:"Private address ranges that collectors may reach, for development."`
	CollectContact        string          `env:"CARILLON_COLLECT_CONTACT" placeholder:"ADDRESS" help:"Contact for owners of sites, in the User-Agent of every collector request: a page's URL or an e-mail address."`
	DeliveryRetrySchedule []time.Duration `env:"CARILLON_DELIVERY_RETRY_SCHEDULE" default:"5s,5m,30m,2h,5h,10h,14h,20h,24h" placeholder:"WAIT" help:"Waits between failed attempts (${default}): nine waits make ten attempts."`
	DeliveryTimeout       time.Duration   `env:"CARILLON_DELIVERY_TIMEOUT" default:"30s" placeholder:"TIME" help:"Timeout of an attempt (${default})."`
	AutoDisableAfter      int             `env:"CARILLON_AUTO_DISABLE_AFTER" default:"100" placeholder:"N" help:"Consecutive failed attempts after which a destination is auto-disabled (${default})."`
	AutoDisableMinStreak  time.Duration   `env:"CARILLON_AUTO_DISABLE_MIN_STREAK" default:"1h" placeholder:"TIME" help:"Minimum duration of the failures before auto-disabling (${default})."`

	RetainDeliveries time.Duration `env:"CARILLON_RETAIN_DELIVERIES" default:"0s" placeholder:"TIME" help:"How long events and their deliveries are kept after all of them have ended, such as 2160h for 90 days; counts stay. 0: forever."`

	RetainHappenings time.Duration `env:"CARILLON_RETAIN_HAPPENINGS" default:"0s" placeholder:"TIME" help:"How long collected events and their items are kept after they are over, such as 8760h for a year; counts stay. 0: forever."`

	OperatorWebhook       Address `env:"CARILLON_OPERATOR_WEBHOOK" placeholder:"URL" help:"An address of yours that gets the notices of all organizations, and sources that need somebody. Empty: none."`
	OperatorWebhookSecret Secret  `env:"CARILLON_OPERATOR_WEBHOOK_SECRET" placeholder:"SECRET" help:"The secret that signs them: whsec_ and 24 to 64 bytes in base64."`

	Relevance Switch `env:"CARILLON_RELEVANCE" default:"on" placeholder:"on|off" help:"Whether items have a relevance score (${default})."`

	OrgSources Switch `env:"CARILLON_ORG_SOURCES" default:"off" placeholder:"on|off" help:"Whether organizations may register sources by their addresses (${default})."`

	ConsoleTheme Theme `env:"CARILLON_CONSOLE_THEME" placeholder:"name=…,logo=FILE,light=#RRGGBB,dark=#RRGGBB" help:"Name, logo (SVG or PNG) and colors of the console: buttons, and links on light and on dark ground. Empty: Carillon's."`

	ConsoleOrigins Origins `env:"CARILLON_CONSOLE_ORIGINS" placeholder:"https://HOST,…" help:"Origins whose pages may show the console in a frame. Empty: none."`

	// EgressCA is a PEM file of authorities that webhooks and collectors trust besides the system's. Optional.
	EgressCA string `name:"egress-ca" env:"CARILLON_EGRESS_CA" help:"PEM file of more authorities that webhooks trust."`

	Platforms

	AdminHosts     []string `env:"CARILLON_ADMIN_HOSTS" placeholder:"NAME,…" help:"Host names, besides localhost and addresses, that the admin listener accepts."`
	TrustedProxies Prefixes `env:"CARILLON_TRUSTED_PROXIES" placeholder:"CIDR,…" help:"Proxies whose X-Forwarded-Proto and X-Forwarded-For are trusted."`
	TLSCert        string   `name:"tls-cert" env:"CARILLON_TLS_CERT" placeholder:"FILE" help:"Certificate (chain) of the API, PEM. With it, the API speaks HTTPS itself."`
	TLSKey         string   `name:"tls-key" env:"CARILLON_TLS_KEY" placeholder:"FILE" help:"Private key of the certificate, PEM."`

	// AfterRestore has no variable: a variable would stay set for the next restore, too.
	AfterRestore bool `help:"Send and visit from a restored data directory. The original server must be stopped."`

	nextMaster   Secret
	masterInFile bool
	masterMade   bool // by this process
}

// The roles that a process can have.
const (
	RoleAPI      = "api"
	RoleProject  = "project"
	RoleDispatch = "dispatch"
	RoleDeliver  = "deliver"
	RoleCollect  = "collect"
)

// ForDemo is the configuration of a server that lives as long as a demo: on free ports, with everything in one
// directory.
func ForDemo(dir, postgresBin string) Config {
	return Config{
		HTTPAddr:              "127.0.0.1:0",
		AdminAddr:             "127.0.0.1:0",
		DataDir:               dir,
		PostgresBin:           postgresBin,
		Dev:                   true,
		Roles:                 []string{RoleAPI, RoleProject, RoleDispatch, RoleDeliver, RoleCollect},
		DeliveryRetrySchedule: []time.Duration{time.Second, time.Second},
		DeliveryTimeout:       10 * time.Second,
		AutoDisableAfter:      maxDisableAfter,
		Relevance:             true,
	}
}

// Is reports whether this process has a role.
func (c *Config) Is(role string) bool { return slices.Contains(c.Roles, role) }

// Setting is an error about one setting; it names the variable and the flag.
type Setting struct {
	Variable string // CARILLON_TLS_KEY
	Issue    string // the remedy
}

// Error names the setting.
func (e *Setting) Error() string {
	flag := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.Variable, "CARILLON_")), "_", "-")
	return fmt.Sprintf("%s (--%s) %s", e.Variable, flag, e.Issue)
}

// Bounds of settings.
const (
	minTokenLength  = 32
	maxRetries      = 50
	maxWait         = 7 * 24 * time.Hour
	minRetention    = 7 * 24 * time.Hour
	minTimeout      = 100 * time.Millisecond
	maxTimeout      = 5 * time.Minute
	maxDisableAfter = 1_000_000

	defaultConnections = 12
	minConnections     = 8
	maxConnections     = 1000
)

// Validate checks every setting and returns the first that is wrong, as a *Setting.
func (c *Config) Validate() error {
	for _, check := range []func() error{
		c.checkAddresses,
		c.checkStores,
		c.checkSecrets,
		c.checkSeal,
		c.checkEgress,
		c.checkDelivery,
		c.checkRetention,
		c.checkOperatorWebhook,
		c.Platforms.Validate,
		c.checkTLS,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func wrong(variable, issue string, args ...any) error {
	return &Setting{Variable: variable, Issue: fmt.Sprintf(issue, args...)}
}

func (c *Config) checkAddresses() error {
	addresses := map[string]string{
		"CARILLON_HTTP_ADDR":  c.HTTPAddr,
		"CARILLON_ADMIN_ADDR": c.AdminAddr,
	}
	for variable, address := range addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return wrong(variable, "must be host:port, such as 127.0.0.1:8080; it is %q", address)
		}
	}
	if c.HTTPAddr == c.AdminAddr && !strings.HasSuffix(c.HTTPAddr, ":0") {
		return wrong("CARILLON_ADMIN_ADDR", "must differ from CARILLON_HTTP_ADDR; both are %s", c.HTTPAddr)
	}
	for variable, address := range addresses {
		if c.Dev && !onLoopback(address) {
			return wrong("CARILLON_DEV", "is for this machine alone: %s must be an address such as 127.0.0.1:8080, and is %s. "+
				"On a network leave it out, and open what webhooks and collectors may reach by CARILLON_DELIVERY_ALLOW_CIDRS and "+
				"CARILLON_COLLECT_ALLOW_CIDRS", variable, address)
		}
	}
	if c.DataDir == "" {
		return wrong("CARILLON_DATA_DIR", "must name a directory")
	}
	for _, name := range c.AdminHosts {
		if name == "" || strings.ContainsAny(name, ":/@ *") {
			return wrong("CARILLON_ADMIN_HOSTS", "must list names without port, such as carillon.internal; one is %q", name)
		}
	}
	if len(c.Roles) == 0 {
		return wrong("CARILLON_ROLES", "must name at least one role")
	}
	return nil
}

func (c *Config) checkStores() error {
	if url := c.EventStoreURL.Reveal(); url != "" &&
		!hasScheme(url, "esdb", "esdb+discover", "kurrentdb", "kurrentdb+discover") {
		return wrong("CARILLON_EVENTSTORE_URL", "must look like esdb://user:password@host:2113?tls=true, or be empty for "+
			"the embedded node")
	}
	c.EventStoreURL = c.EventStoreURL.WithPassword(c.EventStorePassword)
	if strings.Contains(c.KeyStore.Reveal(), "://") {
		if err := c.KeyStore.CheckPostgres(); err != nil {
			return wrong("CARILLON_KEY_STORE", "%s; or name a directory", err)
		}
	}
	return c.checkDatabase()
}

func (c *Config) checkDatabase() error {
	if err := c.checkAnalytics(); err != nil {
		return err
	}
	if n := c.Connections(); n < minConnections || n > maxConnections {
		return wrong("CARILLON_DATABASE_CONNECTIONS", "must be %d to %d; it is %d", minConnections, maxConnections, n)
	}
	if c.DatabaseDirectURL != "" && c.DatabaseURL == "" {
		return wrong("CARILLON_DATABASE_DIRECT_URL", "needs CARILLON_DATABASE_URL, which leads to the same Postgres "+
			"through a pooler")
	}
	for variable, url := range map[string]*Address{
		"CARILLON_DATABASE_URL":        &c.DatabaseURL,
		"CARILLON_DATABASE_DIRECT_URL": &c.DatabaseDirectURL,
	} {
		if *url == "" {
			continue
		}
		*url = url.WithPassword(c.DatabasePassword)
		if err := url.CheckPostgres(); err != nil {
			return wrong(variable, "%s, or set it in CARILLON_DATABASE_PASSWORD. Empty: a private Postgres", err)
		}
		if c.DatabasePassword != "" && url.password() != c.DatabasePassword {
			return wrong("CARILLON_DATABASE_PASSWORD", "needs a user without a password in %s, such as "+
				"postgres://carillon@host:5432/carillon", variable)
		}
	}
	return nil
}

func (c *Config) checkAnalytics() error {
	if c.AnalyticsAddr == "" {
		return nil
	}
	address, err := netip.ParseAddrPort(c.AnalyticsAddr)
	if err != nil || !address.Addr().IsLoopback() || address.Port() == 0 {
		return wrong("CARILLON_ANALYTICS_ADDR", "must be a loopback address with a port, such as 127.0.0.1:5433; it is %q",
			c.AnalyticsAddr)
	}
	if c.DatabaseURL.Reveal() != "" {
		return wrong("CARILLON_ANALYTICS_ADDR",
			"is for the private Postgres: with CARILLON_DATABASE_URL analysts connect to that server")
	}
	return nil
}

// Connections returns how many sessions of Postgres this process opens at most, besides one for its locks.
func (c *Config) Connections() int { return cmp.Or(c.DatabaseConnections, defaultConnections) }

func hasScheme(url string, schemes ...string) bool {
	scheme, rest, _ := strings.Cut(url, "://")
	return rest != "" && slices.Contains(schemes, scheme)
}

// KeyHome returns the directory that keeps the data keys beside an embedded store; "" if Postgres keeps them.
func (c *Config) KeyHome() string {
	if c.KeyStore == "" && (c.EventStoreURL == "" || c.DatabaseURL == "") {
		return c.OwnKeyDir()
	}
	return ""
}

// OwnKeyDir returns the directory in the data directory that keeps data keys, if any does.
func (c *Config) OwnKeyDir() string { return filepath.Join(c.DataDir, keysDir) }

// KeyDatabase returns the address of the second Postgres that has a copy of the data keys; "" if there is none.
func (c *Config) KeyDatabase() string {
	if url := c.KeyStore.Reveal(); hasScheme(url, "postgres", "postgresql") {
		return url
	}
	return ""
}

// KeyDir returns the directory that has data keys, or a copy of them; "" if there is none. If none is named, that in
// the data directory is used if it is the home, or was before all stores were moved elsewhere.
func (c *Config) KeyDir() string {
	if c.KeyDatabase() != "" {
		return ""
	}
	if dir := c.KeyStore.Reveal(); dir != "" {
		return dir
	}
	if _, err := os.Stat(c.OwnKeyDir()); err == nil || c.KeyHome() != "" {
		return c.OwnKeyDir()
	}
	return ""
}

func (c *Config) checkSecrets() error {
	c.splitMasterKey()
	for _, key := range []Secret{c.MasterKey, c.nextMaster} {
		if key == "" && (c.nextMaster == "" || c.MasterKey != "") {
			continue
		}
		if _, err := decodeMasterKey(key.Reveal()); err != nil {
			return wrong("CARILLON_MASTER_KEY", "must be 32 bytes in base64, or two such keys parted by a comma: make one "+
				"with \"openssl rand -base64 32\"")
		}
	}
	if token := c.AdminToken.Reveal(); token != "" && len(token) < minTokenLength {
		return wrong("CARILLON_ADMIN_TOKEN", "must have at least %d characters: make one with \"openssl rand -hex 32\"",
			minTokenLength)
	}
	return nil
}

func (c *Config) checkDelivery() error {
	if len(c.DeliveryRetrySchedule) > maxRetries {
		return wrong("CARILLON_DELIVERY_RETRY_SCHEDULE", "must list at most %d waits; it lists %d", maxRetries,
			len(c.DeliveryRetrySchedule))
	}
	for _, wait := range c.DeliveryRetrySchedule {
		if wait < 0 || wait > maxWait {
			return wrong("CARILLON_DELIVERY_RETRY_SCHEDULE", "must list waits from 0s to %s; one is %s", maxWait, wait)
		}
	}
	if c.DeliveryTimeout < minTimeout || c.DeliveryTimeout > maxTimeout {
		return wrong("CARILLON_DELIVERY_TIMEOUT", "must be from %s to %s; it is %s", minTimeout, maxTimeout,
			c.DeliveryTimeout)
	}
	if c.AutoDisableAfter < 1 || c.AutoDisableAfter > maxDisableAfter {
		return wrong("CARILLON_AUTO_DISABLE_AFTER", "must be from 1 to %d; it is %d", maxDisableAfter, c.AutoDisableAfter)
	}
	if c.AutoDisableMinStreak < 0 {
		return wrong("CARILLON_AUTO_DISABLE_MIN_STREAK", "must not be negative; it is %s", c.AutoDisableMinStreak)
	}
	return CheckContact(c.CollectContact)
}

func (c *Config) checkRetention() error {
	for _, s := range []struct {
		name string
		keep time.Duration
	}{
		{"CARILLON_RETAIN_DELIVERIES", c.RetainDeliveries},
		{"CARILLON_RETAIN_HAPPENINGS", c.RetainHappenings},
	} {
		if s.keep != 0 && s.keep < minRetention {
			return wrong(s.name, "must be 0 (forever) or at least %s; it is %s", minRetention, s.keep)
		}
	}
	return nil
}

func (c *Config) checkTLS() error {
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		return wrong("CARILLON_TLS_KEY", "is missing: CARILLON_TLS_CERT needs it")
	case c.TLSKey != "" && c.TLSCert == "":
		return wrong("CARILLON_TLS_CERT", "is missing: CARILLON_TLS_KEY needs it")
	}
	if c.TLSCert == "" {
		return nil
	}
	cert, err := mtls.ReadPEM(c.TLSCert)
	if err != nil {
		return wrong("CARILLON_TLS_CERT", "%v", err)
	}
	key, err := mtls.ReadPEM(c.TLSKey)
	if err != nil {
		return wrong("CARILLON_TLS_KEY", "%v", err)
	}
	if block, _ := pem.Decode(cert); block == nil {
		return wrong("CARILLON_TLS_CERT", "is no PEM file: it must hold the certificate, and those between it and the root")
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return wrong("CARILLON_TLS_KEY", "is not the PEM key of the certificate in CARILLON_TLS_CERT: %v", err)
	}
	return nil
}

// Unreachable returns why only this machine could use the API as configured; "" if others can.
func (c *Config) Unreachable() string {
	if c.TLSCert != "" || len(c.TrustedProxies) > 0 || onLoopback(c.HTTPAddr) {
		return ""
	}
	return "the API listens on " + c.HTTPAddr +
		" over plain HTTP and refuses every request that isn't from this machine: " +
		"set CARILLON_TLS_CERT and CARILLON_TLS_KEY, or put a proxy in front and name it in CARILLON_TRUSTED_PROXIES"
}

// onLoopback reports an address, host and port, that only this machine can reach.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || host == "localhost"
}
