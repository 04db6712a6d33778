package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"carillon/command/egress"
)

// Why an answer counts as a failure. The reasons for no answer are those of package egress.
const (
	ReasonHTTPStatus = "http_status"
	ReasonRedirect   = "redirect"
	ReasonGone       = "gone"
)

const maxLocation = 300

// judge returns the failure reason and message of a status; both are empty for 2xx. location is that of a redirect.
func judge(status int, location func() string) (reason, message string) {
	switch {
	case status >= 200 && status < 300:
		return "", ""
	case status >= 300 && status < 400:
		to := shorten(location(), maxLocation)
		if to != "" {
			to = " to " + to
		}
		return ReasonRedirect, fmt.Sprintf("endpoint answered %s%s; redirects are not followed", statusText(status), to)
	case status == http.StatusGone:
		return ReasonGone, "endpoint answered 410 Gone: it wants no more deliveries"
	}
	return ReasonHTTPStatus, "endpoint answered " + statusText(status)
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// describe words a transport error for the destination's owner. It is built from the cause alone, because the outer
// errors tell our own addresses and name server, and the URL.
func describe(err error, reason string, timeout time.Duration) string {
	var dns *net.DNSError
	switch {
	case reason == egress.ReasonTimeout:
		return timeoutMessage(err, timeout)
	case reason == egress.ReasonDNS && errors.As(err, &dns):
		cause := dns.Err
		if dns.IsTimeout {
			cause = "the look-up timed out"
		}
		return shorten(fmt.Sprintf("could not resolve %s: %s", dns.Name, cause), maxMessage)
	case reason == egress.ReasonTLS:
		return shorten("TLS: "+strings.TrimPrefix(innermost(err).Error(), "tls: "), maxMessage)
	case reason == egress.ReasonBlocked:
		return innermost(err).Error()
	case errors.Is(err, egress.ErrHTTP2):
		return egress.ErrHTTP2.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection was closed before the answer"
	}
	return shorten(innermost(err).Error(), maxMessage)
}

func timeoutMessage(err error, timeout time.Duration) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return "could not connect in time"
	case strings.Contains(err.Error(), "TLS handshake"):
		return "TLS handshake took too long"
	}
	return fmt.Sprintf("no answer within %s", timeout)
}

// innermost is the last error of the chain, except that a failed certificate is named as such and an alert keeps whose
// it is.
func innermost(err error) error {
	for {
		var op *net.OpError
		if errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error") {
			return fmt.Errorf("%s: %w", op.Op, op.Err)
		}
		if _, ok := err.(*tls.CertificateVerificationError); ok { //nolint:errorlint // this very link of the chain
			return err
		}
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

const maxMessage = 500

// shorten cuts a text at a number of characters and makes it storable.
func shorten(s string, limit int) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	count := 0
	for i := range s {
		if count == limit {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
