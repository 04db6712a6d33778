package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/command/plaintext"
)

const maxLocation = 300

// classify returns the failure reason and message of a status; both are empty for 2xx. location is that of a redirect.
func classify(status int, location func() string) (reason delivery.Failure, message string) {
	switch {
	case status >= 200 && status < 300:
		return "", ""
	case status >= 300 && status < 400:
		to := shorten(location(), maxLocation)
		if to != "" {
			to = " to " + to
		}
		return delivery.FailureRedirect,
			fmt.Sprintf("endpoint answered %s%s; redirects are not followed", statusText(status), to)
	case status == http.StatusGone:
		return delivery.FailureGone, "endpoint answered 410 Gone: it wants no more deliveries"
	}
	return delivery.FailureStatus, "endpoint answered " + statusText(status)
}

func statusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// Explain returns the words of an error of a transport of package egress for people, as on attempts.
func Explain(err error) string { return describe(err, egress.Classify(err), "no answer in time") }

// describe words a transport error for the destination's owner. It is built from the cause alone, because the outer
// errors contain our own addresses and name server, and the URL. late is the text of a timeout.
func describe(err error, reason delivery.Failure, late string) string {
	var dns *net.DNSError
	switch {
	case reason == delivery.FailureTimeout:
		return late
	case reason == delivery.FailureDNS && errors.As(err, &dns):
		cause := dns.Err
		if dns.IsTimeout {
			cause = "the look-up timed out"
		}
		return shorten(fmt.Sprintf("DNS: could not resolve %s: %s", dns.Name, cause), maxMessage)
	case reason == delivery.FailureTLS:
		if message := tlsMessage(err); message != "" {
			return shorten(message, maxMessage)
		}
		return shorten("TLS: "+strings.TrimPrefix(innermost(err).Error(), "tls: "), maxMessage)
	case reason == delivery.FailureBlocked:
		return innermost(err).Error()
	case errors.Is(err, egress.ErrHTTP2):
		return egress.ErrHTTP2.Error()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection was closed before the answer"
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "connection refused: no program accepts connections at this host and port"
	}
	cause := innermost(err)
	if _, ok := errors.AsType[syscall.Errno](cause); ok {
		return "connection: " + cause.Error()
	}
	text := strings.TrimPrefix(strings.TrimPrefix(cause.Error(), "net/http: "), "http: ")
	if strings.Contains(err.Error(), "transport connection broken") {
		return shorten(malformed+text, maxMessage)
	}
	return shorten(cause.Error(), maxMessage)
}

// malformed begins the message about an answer that net/http can't read.
const malformed = "malformed answer: "

// tlsMessage returns what is wrong at the receiver and what to do, and "" if the error itself says it.
func tlsMessage(err error) string {
	var record tls.RecordHeaderError
	if errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) {
		return "TLS: the receiver answers without TLS: is this the port of plain HTTP?"
	}
	return certificateMessage(err)
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

// shorten cuts a text of others at a number of characters and puts it in one line that can be stored and shown.
func shorten(s string, limit int) string { return cut(plaintext.Of(s), limit) }

func cut(s string, limit int) string {
	count := 0
	for i := range s {
		if count == limit {
			return s[:i] + "…"
		}
		count++
	}
	return s
}
