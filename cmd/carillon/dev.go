package main

import (
	"fmt"
	"io"
	"path/filepath"

	"carillon/cmd/internal/dev"
)

type devCommand struct {
	Certificate devCertificateCommand `cmd:"" help:"Make a TLS certificate that the development server trusts."`
}

type devCertificateCommand struct {
	DataDir string `env:"CARILLON_DATA_DIR" default:"./data" help:"Data directory of a development server (${default})."`
	Cert    string `default:"cert.pem" help:"File of the certificate (${default})."`
	Key     string `default:"key.pem" help:"File of its private key (${default})."`
	printing
	Names []string `arg:"" name:"name" help:"localhost, something.localhost, or a loopback address."`
}

// Help implements kong.HelpProvider.
func (devCertificateCommand) Help() string {
	return `The certificate is for receivers on this machine, for 90 days. A server that was started with --dev on the same
data directory trusts it, and no other program does. To look at a receiver with curl, name the authority:

  carillon dev certificate localhost 127.0.0.1
  curl --cacert data/development/ca.pem https://localhost:8443/`
}

// Run makes the certificate.
func (c *devCertificateCommand) Run(t terminal) error {
	authority, err := dev.OpenAuthority(c.DataDir)
	if err != nil {
		return err
	}
	if err := authority.WriteCertificate(c.Cert, c.Key, c.Names); err != nil {
		return err
	}
	made := map[string]string{"certificate": absolute(c.Cert), "key": absolute(c.Key)}
	return c.print(t.out, made, func(w io.Writer) {
		row(w, "Certificate: "+made["certificate"])
		row(w, "Private key: "+made["key"])
		row(w, fmt.Sprintf("The development server on %s trusts it.", c.DataDir))
	})
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
