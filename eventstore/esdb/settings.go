package esdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

const (
	keepaliveTime    = 10 * time.Second // the shortest that gRPC allows
	keepaliveTimeout = 3 * time.Second  // for the answer: a leader that freezes is noticed by it at the latest
)

// settings is what a connection string says.
type settings struct {
	seeds                []string // host:port
	discover             bool     // ask the seeds who leads; else there is one, and it does
	plain, unverified    bool
	user, password       string
	authorities          *x509.CertPool
	certificate, key     string // files of a user who shows a certificate
	pingEvery, pingWaits time.Duration
	dial                 func(ctx context.Context, address string) (net.Conn, error) // nil means through the network
}

// kind is what the value of an option has to be.
type kind int

const (
	text kind = iota
	truth
	number
	preference
	patience
)

// options are the connection string's, in the official spelling. Those that the program decides itself are taken and
// have no effect: they are right for other programs that are given the same string.
var options = map[string]kind{
	"tls": truth, "tlsCAFile": text, "tlsVerifyCert": truth, "userCertFile": text, "userKeyFile": text,
	"keepAliveInterval": number, "keepAliveTimeout": number, "nodePreference": preference,
	"maxDiscoverAttempts": patience, "discoveryInterval": patience, "gossipTimeout": patience, "defaultDeadline": patience,
	"connectionName": text,
}

const form = "it must be of the form esdb://[user:password@]host:port[,host:port]?tls=true"

// parse reads a connection string. No error repeats what may be a part of the password.
func parse(connection string) (settings, error) {
	scheme, rest, ok := strings.Cut(connection, "://")
	scheme = strings.Replace(scheme, "kurrentdb", "esdb", 1) // the product's newer name
	if !ok || scheme != "esdb" && scheme != "esdb+discover" {
		return settings{}, errors.New(form)
	}
	address, query, _ := strings.Cut(rest, "?")
	if at := strings.LastIndexByte(address, '@'); strings.ContainsRune(query, '@') || at >= 0 && strings.ContainsRune(address[:at], '/') {
		return settings{}, errors.New(form + "; in a password @, / and ? are written %40, %2F and %3F")
	}
	hosts := address[strings.LastIndexByte(address, '@')+1:]
	if hosts, path, found := strings.Cut(hosts, "/"); found && path != "" {
		return settings{}, fmt.Errorf("it has a path, %q, after %q: an event store has none, leave it out", "/"+path, hosts)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return settings{}, errors.New("its options can't be read: they are name=value, joined by &")
	}
	explicit, err := checkOptions(values)
	if err != nil {
		return settings{}, err
	}
	maps.DeleteFunc(values, func(name string, _ []string) bool { return strings.EqualFold(name, "connectionName") }) // the parser would print a warning
	config, err := esdb.ParseConnectionString(scheme + "://" + strings.TrimSuffix(address, "/") + "?" + values.Encode())
	if err != nil {
		var file *fs.PathError
		switch {
		case errors.As(err, &file):
			return settings{}, fmt.Errorf("tlsCAFile: %w", file)
		case explicit["tlscafile"] != "" && strings.Contains(err.Error(), "certificate"):
			return settings{}, fmt.Errorf("tlsCAFile: %s holds no certificate in PEM form", explicit["tlscafile"])
		}
		return settings{}, errors.New(form)
	}
	parsed := settings{
		discover: config.DnsDiscover || len(config.GossipSeeds) > 0,
		plain:    config.DisableTLS, unverified: config.SkipCertificateVerification,
		user: config.Username, password: config.Password, authorities: config.RootCAs,
		certificate: config.UserCertFile, key: config.UserKeyFile,
		pingEvery: max(config.KeepAliveInterval, keepaliveTime), pingWaits: keepaliveTimeout,
	}
	if config.KeepAliveInterval < 0 {
		parsed.pingEvery = 0
	}
	if explicit["keepalivetimeout"] != "" && config.KeepAliveTimeout > 0 {
		parsed.pingWaits = config.KeepAliveTimeout
	}
	for _, seed := range config.GossipSeeds {
		parsed.seeds = append(parsed.seeds, seed.String())
	}
	if len(parsed.seeds) == 0 {
		parsed.seeds = []string{config.Address}
	}
	return parsed, nil
}

// checkOptions refuses what the official parser would pass over, and says what is wrong with the rest. It returns the
// values by lower-case name.
func checkOptions(values url.Values) (map[string]string, error) {
	given := map[string]string{}
	for name, list := range values {
		known := ""
		for option := range options {
			if strings.EqualFold(option, name) {
				known = option
			}
		}
		if known == "" {
			return nil, fmt.Errorf("%q is not an option; there are %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
		}
		value := list[0]
		given[strings.ToLower(name)] = value
		switch options[known] {
		case truth:
			if _, err := strconv.ParseBool(strings.ToLower(value)); err != nil {
				return nil, fmt.Errorf("%s is true or false, not %q", known, value)
			}
		case number:
			if n, err := strconv.Atoi(value); err != nil || n < -1 {
				return nil, fmt.Errorf("%s is a number of milliseconds, or -1, not %q", known, value)
			}
		case patience:
			if n, err := strconv.Atoi(value); err != nil || n < 1 {
				return nil, fmt.Errorf("%s is a number above 0, not %q", known, value)
			}
		case preference:
			if !strings.EqualFold(value, "leader") {
				return nil, fmt.Errorf("nodePreference can only be leader, not %q: whatever is decided is decided on what the leader has", value)
			}
		case text:
			if value == "" {
				return nil, fmt.Errorf("%s has no value", known)
			}
		}
	}
	return given, nil
}

// security is how servers are recognized; nil means that nothing is encrypted.
func (c settings) security() (*tls.Config, error) {
	if c.plain {
		return nil, nil //nolint:nilnil // no encryption is an answer
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: c.authorities,
		InsecureSkipVerify: c.unverified, //nolint:gosec // only where the operator says so, by tlsVerifyCert=false
	}
	switch {
	case (c.certificate == "") != (c.key == ""):
		return nil, errors.New("userCertFile and userKeyFile belong together, one is missing")
	case c.certificate != "":
		pair, err := tls.LoadX509KeyPair(c.certificate, c.key)
		if err != nil {
			return nil, fmt.Errorf("userCertFile and userKeyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
