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

	"carillon/aggregates/delivery"
)

// Classify returns the reason of an error that a transport of [NewTransport] returned, and "" for nil. Other errors are
// [delivery.FailureConnection]. A look-up that timed out is [delivery.FailureDNS], because that names the cause.
func Classify(err error) delivery.Failure {
	var dnsErr *net.DNSError
	var netErr net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrBlocked):
		return delivery.FailureBlocked
	case errors.As(err, &dnsErr):
		return delivery.FailureDNS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return delivery.FailureTimeout
	case isTLS(err):
		return delivery.FailureTLS
	}
	return delivery.FailureConnection
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
