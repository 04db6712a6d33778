package esdb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

const (
	minPingTime = 10 * time.Second // that gRPC allows
	pingTimeout = 3 * time.Second  // a leader that freezes is noticed after it at the latest
)

// settings holds what a connection string says.
type settings struct {
	seeds                  []string // host:port
	discover               bool     // ask the seeds who leads; else there is one, and it does
	user, password         string
	pingEvery, pingTimeout time.Duration
	dial                   func(ctx context.Context, address string) (net.Conn, error) // nil means through the network
}

// options are the connection string's, in the official spelling. Those after nodePreference have no effect, as the
// program decides them itself: they are right for other programs that are given the same string.
var options = []string{
	"tls", "tlsCAFile", "tlsVerifyCert", "userCertFile", "userKeyFile", "keepAliveInterval", "keepAliveTimeout",
	"nodePreference", "maxDiscoverAttempts", "discoveryInterval", "gossipTimeout", "defaultDeadline", "connectionName",
}

const form = "it must be of the form esdb://[user:password@]host:port[,host:port]?tls=true; in a password @, /, ?, # " +
	"and % are written %40, %2F, %3F, %23 and %25"

// parse reads a connection string, and the files that it names. No error repeats what may be a part of the password.
func parse(connection string) (settings, *tls.Config, error) {
	scheme, rest, ok := strings.Cut(connection, "://")
	scheme = strings.Replace(scheme, "kurrentdb", "esdb", 1) // the product's newer name
	if !ok || scheme != "esdb" && scheme != "esdb+discover" {
		return settings{}, nil, errors.New(form)
	}
	address, query, _ := strings.Cut(rest, "?")
	at := strings.LastIndexByte(address, '@') + 1
	if strings.ContainsRune(query, '@') || strings.ContainsRune(address[:at], '/') {
		return settings{}, nil, errors.New(form)
	}
	if hosts, path, _ := strings.Cut(address[at:], "/"); path != "" {
		return settings{}, nil, fmt.Errorf("it has a path, %q, after %q: leave it out", "/"+path, hosts)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return settings{}, nil, errors.New("its options can't be read: they are name=value, joined by &")
	}
	parsed, err := parseOptions(values)
	if err != nil {
		return settings{}, nil, err
	}
	config, err := esdb.ParseConnectionString(scheme + "://" + strings.TrimSuffix(address, "/"))
	if err != nil {
		return settings{}, nil, errors.New(form)
	}
	read := settings{
		discover:    config.DnsDiscover || len(config.GossipSeeds) > 0,
		user:        config.Username,
		password:    config.Password,
		pingEvery:   max(parsed.KeepAliveInterval, minPingTime),
		pingTimeout: pingTimeout,
	}
	if parsed.KeepAliveInterval < 0 {
		read.pingEvery = 0
	}
	if parsed.KeepAliveTimeout > 0 {
		read.pingTimeout = parsed.KeepAliveTimeout
	}
	for _, seed := range config.GossipSeeds {
		read.seeds = append(read.seeds, seed.String())
	}
	if len(read.seeds) == 0 {
		read.seeds = []string{config.Address}
	}
	security, err := security(parsed)
	return read, security, err
}

// parseOptions lets the official client read the options, and refuses those that it would ignore. A KeepAliveTimeout
// of 0 was not given.
func parseOptions(values url.Values) (*esdb.Configuration, error) {
	given := url.Values{}
	for name, list := range values {
		known := slices.IndexFunc(options, func(option string) bool { return strings.EqualFold(option, name) })
		switch {
		case known < 0:
			return nil, fmt.Errorf("%q is not an option; there are %s", name, strings.Join(options, ", "))
		case list[0] == "":
			return nil, fmt.Errorf("%s has no value", options[known])
		case options[known] == "nodePreference" && !strings.EqualFold(list[0], "leader"):
			return nil, fmt.Errorf("nodePreference can only be leader, not %q: decisions need all events", list[0])
		case options[known] != "connectionName": // about which the parser would print a warning
			given[options[known]] = list
		}
	}
	parsed, err := esdb.ParseConnectionString("esdb://localhost?" + given.Encode())
	var file *fs.PathError
	switch authority := given.Get("tlsCAFile"); {
	case errors.As(err, &file):
		return nil, fmt.Errorf("tlsCAFile: %w", file)
	case err != nil && strings.Contains(err.Error(), "certificate"):
		return nil, fmt.Errorf("tlsCAFile: %s holds no certificate in PEM form", authority)
	case err != nil:
		return nil, err
	}
	if !given.Has("keepAliveTimeout") {
		parsed.KeepAliveTimeout = 0
	}
	if err := parsed.Validate(); err != nil {
		return nil, err
	}
	return parsed, nil
}

// security returns how servers are recognized; nil means that nothing is encrypted.
func security(parsed *esdb.Configuration) (*tls.Config, error) {
	if parsed.DisableTLS {
		return nil, nil //nolint:nilnil // no encryption is an answer
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		RootCAs:            parsed.RootCAs,
		InsecureSkipVerify: parsed.SkipCertificateVerification, //nolint:gosec // tlsVerifyCert=false
	}
	if parsed.UserCertFile != "" {
		pair, err := tls.LoadX509KeyPair(parsed.UserCertFile, parsed.UserKeyFile)
		if err != nil {
			return nil, fmt.Errorf("userCertFile and userKeyFile: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
