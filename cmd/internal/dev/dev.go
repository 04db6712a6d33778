// Package dev has what a server adds on a developer's machine: an organization with a key that is there from the first
// start on, and a certificate authority for receivers on loopback. None of it exists on a server that was started
// without --dev.
package dev

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"carillon/command/credential"
	"carillon/eventstore/durable"
)

const (
	dirName = "development"
	keyFile = "api-key"

	listenSecretFile  = "listen-secret"
	listenSecretBytes = 32

	dirMode  = 0o700
	fileMode = 0o600
)

// Loopback lists the ranges that deliveries and collectors may reach in development, beside the public internet.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// ExampleSource is the address of the site that the examples of the API's document attach. A development server has it
// as a source, paused: nothing is collected from it.
const ExampleSource = "https://example.org/events"

// ReadKey returns the development API key of a data directory, or fs.ErrNotExist, also if its file holds none.
func ReadKey(dataDir string) (string, error) {
	path := filepath.Join(dataDir, dirName, keyFile)
	text, err := os.ReadFile(path) //nolint:gosec // the operator's own directory
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	key, ok := credential.Parse(credential.APIKey, strings.TrimSpace(string(text)))
	if !ok {
		return "", fmt.Errorf("development key: %s is damaged: %w", path, fs.ErrNotExist)
	}
	return key.Reveal(), nil
}

// OpenAuthority returns the authority of a development server's data directory, which must have one already.
func OpenAuthority(dataDir string) (*Authority, error) {
	if there, err := exists(filepath.Join(dataDir, dirName, authorityFile)); err != nil || !there {
		return nil, errors.Join(err, fmt.Errorf("%s is not the data directory of a development server: "+
			"start one (carillon serve --dev), or name its directory (CARILLON_DATA_DIR or --data-dir)", dataDir))
	}
	return EnsureAuthority(dataDir)
}

// KeepKey stores the development API key, readable by its owner only.
func KeepKey(dataDir, key string) error { return keep(dataDir, keyFile, []byte(key+"\n")) }

// ListenSecret returns the secret by which webhooks to "carillon listen" are signed. The first call makes it, so that a
// receiver can be started once and stay.
func ListenSecret(dataDir string) (string, error) {
	path := filepath.Join(dataDir, dirName, listenSecretFile)
	secret, err := os.ReadFile(path) //nolint:gosec // the operator's own directory
	if !errors.Is(err, fs.ErrNotExist) {
		return strings.TrimSpace(string(secret)), err
	}
	random := make([]byte, listenSecretBytes)
	_, _ = rand.Read(random) // never fails
	made := "whsec_" + base64.StdEncoding.EncodeToString(random)
	return made, keep(dataDir, listenSecretFile, []byte(made+"\n"))
}

// keep writes a file as a whole or not at all.
func keep(dataDir, name string, content []byte) error {
	dir := filepath.Join(dataDir, dirName)
	err := os.MkdirAll(dir, dirMode)
	if err == nil {
		err = durable.Write(filepath.Join(dir, name), func(file io.Writer) error {
			_, err := file.Write(content)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("development files: %w", err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

const readHeaderTimeout = 10 * time.Second

// Receive serves a handler over TLS on a free port of loopback until stop. origin is its address: https://host:port.
func (a *Authority) Receive(ctx context.Context, handler http.HandlerFunc) (origin string, stop func(), err error) {
	certificate, err := a.Certificate()
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("receive webhooks: %w", err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until stop
	return "https://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}
