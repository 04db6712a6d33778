package webhook

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"carillon/command/egress"
)

// shown says what the receiver saw of a client certificate.
type shown struct {
	certificate bool // the connections show one where the receiver asks
	asked       bool // the receiver asked
}

// refusals are alerts that say something of a certificate. The receiver sends them about ours: its own is checked here.
var refusals = []string{
	"certificate required", "bad certificate", "unsupported certificate", "revoked certificate", "expired certificate",
	"unknown certificate", "unknown certificate authority", "access denied",
}

// refused reports whether a receiver ended the handshake for want of a certificate that it takes, in words for the
// destination's owner.
func (s shown) refused(err error) (refused bool, words string) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return false, ""
	}
	alert := strings.TrimPrefix(op.Err.Error(), "tls: ")
	switch {
	case !slices.Contains(refusals, alert):
		return false, ""
	case s.certificate:
		return true, "TLS: the receiver refused your organization's client certificate: " + alert
	}
	return true, "TLS: the receiver wants a client certificate (" + alert + "), and your organization has none: the operator can set one"
}

// afterFailure is added where a receiver that asked for a certificate went away without a word about it.
func (s shown) afterFailure(reason string) string {
	if !s.asked || reason != egress.ReasonTLS && reason != egress.ReasonConnection {
		return ""
	}
	return s.words()
}

// afterStatus is added where a receiver that asked for a certificate answers that it lets nobody in; some do so instead of
// ending the handshake.
func (s shown) afterStatus(status int) string {
	if !s.asked || status != http.StatusBadRequest && status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	return s.words()
}

func (s shown) words() string {
	if s.certificate {
		return "; the receiver asked for a client certificate, and was shown your organization's"
	}
	return "; the receiver asked for a client certificate, and your organization has none: the operator can set one"
}
