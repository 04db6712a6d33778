package dev

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

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
