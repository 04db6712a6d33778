package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
)

// Why a request got no answer, as recorded on attempts.
const (
	ReasonTimeout    = "timeout"
	ReasonConnection = "connection"
	ReasonDNS        = "dns"
	ReasonTLS        = "tls"
	ReasonBlocked    = "blocked_address"
)

// Classify returns the reason of an error that a transport of [NewTransport] returned, and "" for nil. Other errors are
// [ReasonConnection]. A look-up that timed out is [ReasonDNS], because that names the cause.
func Classify(err error) string {
	var dnsErr *net.DNSError
	var netErr net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrBlocked):
		return ReasonBlocked
	case errors.As(err, &dnsErr):
		return ReasonDNS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return ReasonTimeout
	case isTLS(err):
		return ReasonTLS
	}
	return ReasonConnection
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		op           *net.OpError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.Is(err, http.ErrSchemeMismatch):
		return true
	// An alert, ours or the peer's, is of an unexported type inside an OpError whose operation is not one of the
	// network's.
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return true
	}
	// The rest of crypto/tls has plain errors that begin with its name.
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), "tls: ") {
			return true
		}
	}
	return false
}
