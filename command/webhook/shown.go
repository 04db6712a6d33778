package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"carillon/aggregates/delivery"
)

// shown is the receiver's view of a client certificate.
type shown struct {
	certificate bool // the connections show one if the receiver asks
	asked       bool // the receiver asked

	stage *atomic.Pointer[string] // the step that the request waits for
}

// Stages of a request, by what did not come.
const (
	stageName    = "the name was not resolved"
	stageConnect = "no connection was made"
	stageTLS     = "the TLS handshake did not end"
	stageAnswer  = "no answer"
)

func (s *shown) begin(stage string) { s.stage.Store(&stage) }

// late returns what did not come in time.
func (s shown) late(took time.Duration) string {
	missed := stageConnect // a connection that another request opens
	if begun := s.stage.Load(); begun != nil {
		missed = *begun
	}
	return fmt.Sprintf("timeout: %s within %s", missed, took.Round(100*time.Millisecond)) //nolint:mnd // enough for people
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
	return true, "TLS: the receiver wants a client certificate (" + alert + "), " +
		"and your organization has none: the operator can set one"
}

// afterFailure is added if a receiver that asked for a certificate closed the connection without an alert.
func (s shown) afterFailure(reason delivery.Failure) string {
	if !s.asked || reason != delivery.FailureTLS && reason != delivery.FailureConnection {
		return ""
	}
	return s.words()
}

// afterStatus returns the addition if a receiver that asked for a certificate denies access; some do so instead of
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
