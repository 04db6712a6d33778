package apiclient

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"carillon/command/mtls"
)

// plainTransport returns a transport through the environment's proxy, which never serves loopback.
func plainTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		IdleConnTimeout:     time.Minute,
		TLSHandshakeTimeout: callTimeout,
	}
}

// transport is plainTransport, which accepts exactly the certificate of a file if one is named, whatever its name: it
// need not be made for a loopback address.
func transport(certificate string) (*http.Transport, error) {
	transport := plainTransport()
	if certificate == "" {
		return transport, nil
	}
	text, err := mtls.ReadPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate of the API: %w", err)
	}
	block, rest := pem.Decode(text)
	for block != nil && block.Type != "CERTIFICATE" {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return nil, fmt.Errorf("certificate of the API: %s holds none in PEM", certificate)
	}
	transport.TLSClientConfig = &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // compared below
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, block.Bytes) {
				return fmt.Errorf("the API shows another certificate than %s", certificate)
			}
			return nil
		},
	}
	return transport, nil
}
