package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"carillon/cmd/internal/app"
	"carillon/command/egress"
)

const (
	expiresSoon = 21 * 24 * time.Hour
	mostAnswer  = 64 << 10 // bytes read of an answer
)

// hosts are the names in settings and options that must have an address.
func hosts(p *Patient) (names []string) {
	addresses := append([]string{
		p.Config.EventStoreURL.Reveal(),
		p.Config.DatabaseURL.Reveal(),
		p.Config.DatabaseDirectURL.Reveal(),
		p.Config.KeyDatabase(),
		p.Config.SealTo.Reveal(),
		p.Config.OperatorWebhook.Reveal(),
		p.Public,
	}, p.Reach...)
	for _, address := range addresses {
		_, rest, is := strings.Cut(address, "://")
		if !is {
			continue
		}
		rest, _, _ = strings.Cut(rest, "/")
		rest, _, _ = strings.Cut(rest, "?")
		for host := range strings.SplitSeq(rest[strings.LastIndex(rest, "@")+1:], ",") {
			if name, _, err := net.SplitHostPort(host); err == nil {
				host = name
			}
			if host != "" && net.ParseIP(strings.Trim(host, "[]")) == nil {
				names = append(names, host)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func resolution(ctx context.Context, p *Patient) (string, error) {
	names := hosts(p)
	if len(names) == 0 {
		return "", skip("no setting names a host")
	}
	for _, name := range names {
		if _, err := net.DefaultResolver.LookupHost(ctx, name); err != nil {
			return "", fail("correct the name, or /etc/resolv.conf", "%s has no address: %v", name, err)
		}
	}
	return strings.Join(names, ", "), nil
}

func certificate(_ context.Context, p *Patient) (string, error) {
	if p.Config.TLSCert == "" {
		return "", skip("the API speaks no TLS itself")
	}
	text, err := os.ReadFile(p.Config.TLSCert)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	leaf, err := x509.ParseCertificate(block.Bytes) // Validate has read it
	if err != nil {
		return "", err
	}
	const renew = "renew it, and put it into the same file: it is read again by itself"
	left := leaf.NotAfter.Sub(p.Now())
	switch {
	case left <= 0:
		return "", fail(renew, "expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case p.Now().Before(leaf.NotBefore):
		return "", fail("correct this machine's clock, or wait", "valid from %s", leaf.NotBefore.UTC().Format(time.RFC3339))
	case left < expiresSoon:
		return "", warn(renew, "%d days left", int(left.Hours()/24))
	}
	if public, err := url.Parse(p.Public); err == nil && p.Public != "" {
		if err := leaf.VerifyHostname(public.Hostname()); err != nil {
			return "", fail("get one for the name that clients use", "%v", err)
		}
	}
	return fmt.Sprintf("%d days left", int(left.Hours()/24)), nil
}

func apiAddress(ctx context.Context, p *Patient) (string, error) {
	return address(ctx, p.Config.HTTPAddr, p.Config.TLSCert != "")
}

func adminAddress(ctx context.Context, p *Patient) (string, error) {
	return address(ctx, p.Config.AdminAddr, false)
}

// address reports whether a server can listen at an address, or a Carillon does already.
func address(ctx context.Context, at string, secure bool) (string, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", at)
	if err == nil {
		return at + " is free", listener.Close()
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	// Its certificate is for the name that clients use.
	own := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // nothing secret is sent
	defer own.CloseIdleConnections()
	if answer, err := ask(ctx, own, scheme+"://"+at); err == nil && answer.isCarillon() {
		return at + " is a Carillon's", nil
	}
	return "", fail("stop the program that listens there, or name another address", "%v", err)
}

// answer holds what a Carillon says to a request without a key: an error of its form.
type answer struct {
	Success *bool `json:"success"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

func (a answer) isCarillon() bool { return a.Success != nil && a.Error.Message != "" }

// ask requests the root of a server.
func ask(ctx context.Context, over http.RoundTripper, address string) (said answer, err error) {
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return said, errors.New("an address begins with https:// or http://")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/", http.NoBody)
	if err != nil {
		return said, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := over.RoundTrip(request)
	if err != nil {
		return said, err
	}
	defer func() { _ = response.Body.Close() }()
	_ = json.NewDecoder(io.LimitReader(response.Body, mostAnswer)).Decode(&said) // of another program: no answer
	return said, nil
}

// publicAddress asks the API as its clients do, through the proxies that are before it.
func publicAddress(ctx context.Context, p *Patient) (string, error) {
	if p.Public == "" {
		return "", skip("name the address that clients use by --url")
	}
	own := &http.Transport{}
	defer own.CloseIdleConnections()
	said, err := ask(ctx, own, p.Public)
	switch {
	case err != nil:
		return "", fail("is the server running, and does its proxy know it?", "%s: %v", p.Public, err)
	case !said.isCarillon():
		return "", fail("let the proxy send all paths on to CARILLON_HTTP_ADDR", "%s is answered by another program",
			p.Public)
	case strings.Contains(said.Error.Message, "plain HTTP"):
		return "", fail("let the proxy set X-Forwarded-Proto and X-Forwarded-For itself, and name it in "+
			"CARILLON_TRUSTED_PROXIES", "the server believes that clients use plain HTTP")
	case !strings.HasPrefix(p.Public, "https://"):
		return "", warn("use https://", "keys cross the network in the clear")
	}
	return p.Public + " is a Carillon", nil
}

// originOf returns an address without its path, which may be a secret.
func originOf(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return egress.ShownAddress(address)
	case u.Host == "": // without a scheme
		host, _, _ := strings.Cut(address, "/")
		return host
	}
	return u.Scheme + "://" + u.Host
}

// reachable asks receivers and sites as the server would: from its address, past its guard.
func reachable(ctx context.Context, p *Patient) (string, error) {
	reach := p.Reach
	for _, setting := range []string{p.Config.OperatorWebhook.Reveal(), p.Config.SealTo.Reveal()} {
		if strings.Contains(setting, "://") {
			reach = append(reach, setting)
		}
	}
	if len(reach) == 0 {
		return "", skip("name a receiver or a site by --reach")
	}
	policy, options, err := app.DeliveryEgress(&p.Config)
	if err != nil {
		return "", err
	}
	transport := egress.NewTransport(policy, options)
	defer transport.CloseIdleConnections()
	for _, address := range reach {
		origin := originOf(address)
		_, err := ask(ctx, transport, origin)
		switch {
		case errors.Is(err, egress.ErrBlocked):
			return "", fail("if it is meant to be reached, name its range in CARILLON_DELIVERY_ALLOW_CIDRS", "%s: %v",
				origin, err)
		case err != nil:
			return "", fail("let the firewall pass it, and correct CARILLON_EGRESS_ADDR and CARILLON_EGRESS_CA", "%s: %v",
				origin, err)
		}
	}
	return fmt.Sprintf("reached: %d", len(reach)), nil
}
