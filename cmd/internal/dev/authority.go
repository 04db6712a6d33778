package dev

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	authorityFile = "ca.pem" // certificate and key
	validity      = 10 * 365 * 24 * time.Hour
	leafValidity  = 90 * 24 * time.Hour
	serialBits    = 120
	localhost     = "localhost"
)

// Authority signs the certificates of receivers on loopback.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// EnsureAuthority reads the authority of a data directory and makes it on the first call.
func EnsureAuthority(dataDir string) (*Authority, error) {
	path := filepath.Join(dataDir, dirName, authorityFile)
	there, err := exists(path)
	if err != nil {
		return nil, fmt.Errorf("development authority: %w", err)
	}
	if !there {
		content, err := newAuthority()
		if err != nil {
			return nil, fmt.Errorf("development authority: %w", err)
		}
		if err := keep(dataDir, authorityFile, content); err != nil {
			return nil, err
		}
	}
	pair, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		return nil, fmt.Errorf("%s does not hold the development authority: delete it, and a new one is made: %w", path, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("development authority: its key can't sign")
	}
	return &Authority{certificate: pair.Leaf, key: key}, nil
}

func newAuthority() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template("Carillon development authority", validity)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	// Limited to names and addresses of this machine, so that a leaked key is of no use elsewhere.
	template.PermittedDNSDomainsCritical = true
	template.PermittedDNSDomains = []string{localhost}
	template.PermittedIPRanges = []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return append(content, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

func template(name string, valid time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(valid),
	}, nil
}

// Trust returns the system's roots and this authority.
func (a *Authority) Trust() *x509.CertPool {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AddCert(a.certificate)
	return roots
}

// Certificate signs a certificate for a server on loopback, without names for localhost and both loopback addresses.
func (a *Authority) Certificate(names ...string) (tls.Certificate, error) {
	if len(names) == 0 {
		names = []string{"localhost", "127.0.0.1", "::1"}
	}
	template, err := template(names[0], leafValidity)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	for _, name := range names {
		address, isAddress := netip.ParseAddr(name)
		switch {
		case isAddress == nil && address.IsLoopback():
			template.IPAddresses = append(template.IPAddresses, address.AsSlice())
		case name == localhost || strings.HasSuffix(name, "."+localhost):
			template.DNSNames = append(template.DNSNames, name)
		default:
			return tls.Certificate{}, fmt.Errorf("%q is not a name of this machine: name localhost, "+
				"something.localhost, 127.0.0.1 or ::1; for other names make a certificate by an authority of your own, "+
				"and set CARILLON_EGRESS_CA to the authority's file", name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	certificate, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, nil
}

// WriteCertificate signs a certificate for names of this machine, and writes it and its key as PEM. It replaces only
// files whose certificate the same authority has signed.
func (a *Authority) WriteCertificate(certFile, keyFile string, names []string) error {
	if err := a.replaceable(certFile, keyFile); err != nil {
		return err
	}
	pair, err := a.Certificate(names...)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	return errors.Join(os.WriteFile(keyFile, key, fileMode), os.WriteFile(certFile, certificate, fileMode))
}

func (a *Authority) replaceable(certFile, keyFile string) error {
	_, certErr := os.Stat(certFile)
	_, keyErr := os.Stat(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil || pair.Leaf.CheckSignatureFrom(a.certificate) != nil {
		return fmt.Errorf("%s or %s is there, and is not by this command: "+
			"name other files (--cert, --key)", certFile, keyFile)
	}
	return nil
}
