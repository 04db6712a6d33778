package mtls

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"time"
)

const blockCertificate = "CERTIFICATE"

// Bounds of RSA keys, in bits: below, receivers refuse them; above, each handshake would take long.
const (
	minRSA = 2048
	maxRSA = 8192
)

// readChain reads and checks the certificates, the client's first.
func readChain(text string, now time.Time) ([]*x509.Certificate, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, wrong(FieldCertificate, "is required: the client certificate as PEM, and after it those that signed it")
	case len(text) > MaxChain:
		return nil, wrong(FieldCertificate, "has %d bytes, and may have %d: send the client certificate and those that "+
			"signed it, and no others", len(text), MaxChain)
	}
	data, err := PEM([]byte(text))
	if err != nil {
		return nil, wrong(FieldCertificate, "%v", err)
	}
	var chain []*x509.Certificate
	block, rest := pem.Decode(data)
	for ; block != nil; block, rest = pem.Decode(rest) {
		switch {
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, wrong(FieldCertificate, "holds a private key: send that as privateKey alone")
		case block.Type != blockCertificate:
			return nil, wrong(FieldCertificate, "holds a PEM block that is no certificate: send blocks that begin with "+
				"-----BEGIN CERTIFICATE----- only")
		case len(chain) == maxChainLength:
			return nil, wrong(FieldCertificate, "holds more than %d certificates: send the client certificate and those that "+
				"signed it", maxChainLength)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, wrong(FieldCertificate, "holds, as number %d, an unreadable X.509 certificate: export it "+
				"again", len(chain)+1)
		}
		chain = append(chain, certificate)
	}
	if len(chain) == 0 || strings.Contains(string(rest), "-----BEGIN") {
		return nil, wrong(FieldCertificate, "is not PEM, or is cut off: it must have lines from -----BEGIN "+
			"CERTIFICATE----- to -----END CERTIFICATE-----")
	}
	for i, certificate := range chain {
		if err := checkValidity(certificate, i+1, now); err != nil {
			return nil, err
		}
	}
	if err := checkClient(chain[0]); err != nil {
		return nil, err
	}
	return chain, checkOrder(chain)
}

func checkValidity(certificate *x509.Certificate, number int, now time.Time) error {
	switch {
	case !now.Before(certificate.NotAfter):
		return wrong(FieldCertificate, "has expired: number %d of the chain was valid until %s; send one that is valid",
			number, instant(certificate.NotAfter))
	case now.Before(certificate.NotBefore):
		return wrong(FieldCertificate, "is not valid yet: number %d of the chain is valid from %s, and it is %s; set it then",
			number, instant(certificate.NotBefore), instant(now))
	}
	return nil
}

func instant(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// checkClient refuses what receivers don't take for a client's.
func checkClient(leaf *x509.Certificate) error {
	if leaf.BasicConstraintsValid && leaf.IsCA {
		return wrong(FieldCertificate, "is, as number 1, one of an authority (CA:TRUE): put the client certificate first, "+
			"and those that signed it after it")
	}
	usages := leaf.ExtKeyUsage
	if (len(usages) > 0 || len(leaf.UnknownExtKeyUsage) > 0) && !slices.Contains(usages, x509.ExtKeyUsageClientAuth) &&
		!slices.Contains(usages, x509.ExtKeyUsageAny) {
		return wrong(FieldCertificate, "is not for clients: its extended key usage is without clientAuth, as that of a "+
			"server's; ask for one with it")
	}
	if leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0 {
		return wrong(FieldCertificate, "must not sign: its key usage is without digitalSignature, which TLS needs; ask for "+
			"one with it")
	}
	return checkPublic(leaf.PublicKey)
}

func checkPublic(key crypto.PublicKey) error {
	switch public := key.(type) {
	case *rsa.PublicKey:
		if bits := public.N.BitLen(); bits < minRSA || bits > maxRSA {
			return wrong(FieldCertificate, "has an RSA key of %d bits: it must have %d to %d", bits, minRSA, maxRSA)
		}
		return nil
	case *ecdsa.PublicKey:
		if bits := public.Params().BitSize; bits < 256 {
			return wrong(FieldCertificate, "has an ECDSA key of %d bits: it must be on P-256, P-384 or P-521", bits)
		}
		return nil
	case ed25519.PublicKey:
		return nil
	}
	return wrong(FieldCertificate, "has a key that TLS does not know: it must be RSA, ECDSA or Ed25519")
}

// checkOrder wants each certificate to be signed by the next.
func checkOrder(chain []*x509.Certificate) error {
	for i, signer := range chain[1:] {
		var weak x509.InsecureAlgorithmError
		switch err := chain[i].CheckSignatureFrom(signer); {
		case errors.As(err, &weak):
			return wrong(FieldCertificate, "is, as number %d, signed with an algorithm that is not safe: ask for one with "+
				"SHA-256", i+1)
		case err != nil:
			return wrong(FieldCertificate, "is out of order: number %d of the chain did not sign number %d; put the client "+
				"certificate first, then the one that signed it, and so on", i+2, i+1)
		}
	}
	return nil
}
