package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	maxName  = 80 // characters of a name in a certificate
	maxNames = 5  // of a certificate
)

// certificateMessage returns why a receiver's certificate is refused: which one, and what to do. It is "" for any other
// error.
func certificateMessage(err error) string {
	var verification *tls.CertificateVerificationError
	if !errors.As(err, &verification) || len(verification.UnverifiedCertificates) == 0 {
		return ""
	}
	chain := verification.UnverifiedCertificates
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &authority):
		return "TLS: " + certificate(chain[0]) + missingAuthority(chain)
	case errors.As(err, &name):
		return fmt.Sprintf("TLS: %s is for %s, and not for %s", certificate(chain[0]), namesOf(chain[0]),
			shorten(name.Host, maxName))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return "TLS: " + certificate(invalid.Cert) + " is not valid now: renew it, or correct a clock"
	case errors.As(err, &invalid) && invalid.Cert != nil:
		return fmt.Sprintf("TLS: %s is refused: %s", certificate(invalid.Cert), strings.TrimPrefix(invalid.Error(), "x509: "))
	}
	return "TLS: " + certificate(chain[0]) + " is refused: " + innermost(verification.Err).Error()
}

// missingAuthority returns which authority is not known, by the last certificate of a chain.
func missingAuthority(chain []*x509.Certificate) string {
	last := chain[len(chain)-1]
	if bytes.Equal(last.RawIssuer, last.RawSubject) {
		if len(chain) == 1 {
			return " is signed by itself: take one of a public authority, " + orTrusted
		}
		return fmt.Sprintf(" is of the authority %s, which is not known here: take one of a public authority, ",
			nameOf(last.Subject)) + orTrusted
	}
	return fmt.Sprintf(" is signed by %s, which is not known here: send its certificate along if that is an "+
		"intermediate one, ", nameOf(last.Issuer)) + orTrusted
}

const orTrusted = "or have the operator trust it (CARILLON_EGRESS_CA)"

// certificate names a certificate: its subject, its issuer and when it is valid.
func certificate(c *x509.Certificate) string {
	return fmt.Sprintf("the certificate of %s (issuer %s, valid from %s to %s)", nameOf(c.Subject), nameOf(c.Issuer),
		c.NotBefore.UTC().Format(time.DateOnly), c.NotAfter.UTC().Format(time.DateOnly))
}

func nameOf(of pkix.Name) string {
	name := of.CommonName
	if name == "" {
		name = of.String()
	}
	if name == "" {
		return "no name"
	}
	return cut(fmt.Sprintf("%q", name), maxName)
}

// namesOf returns the hosts that a certificate is for.
func namesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, address := range c.IPAddresses {
		names = append(names, address.String())
	}
	switch {
	case len(names) == 0:
		return "no host"
	case len(names) > maxNames:
		names = append(names[:maxNames:maxNames], "…")
	}
	for i := range names {
		names[i] = shorten(names[i], maxName)
	}
	return strings.Join(names, ", ")
}
