package dev_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/dev"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestKeyIsKeptAndPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := dev.ReadKey(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a key before there is one: %v", err)
	}
	kept := credential.New(credential.APIKey).Reveal()
	must.OK(t, dev.KeepKey(dir, kept))
	key, err := dev.ReadKey(dir)
	must.True(t, err == nil && key == kept, "key = %q, %v", key, err)
	must.OK(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %s", path, info.Mode())
		}
		return err
	}))
	must.OK(t, dev.KeepKey(dir, kept[1:]))
	_, err = dev.ReadKey(dir)
	assert.Is(t, err, fs.ErrNotExist, "a damaged key") // another one is made in the place of one that is damaged
}

func TestAuthorityTrustedOnLoopback(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	authority := must.Get(dev.EnsureAuthority(dir))(t)
	again := must.Get(dev.EnsureAuthority(dir))(t)
	certificate := must.Get(again.Certificate())(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:    authority.Trust(),
		MinVersion: tls.VersionTLS12,
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Get(server.URL)
	must.OK(t, err)
	must.OK(t, response.Body.Close())
}

func TestDamagedAuthorityIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Get(dev.EnsureAuthority(dir))(t)
	must.OK(t, os.WriteFile(filepath.Join(dir, "development", "ca.pem"), []byte("rubbish"), 0o600))
	_, err := dev.EnsureAuthority(dir)
	assert.True(t, strings.Contains(fmt.Sprint(err), "ca.pem does not hold"), "rubbish is an authority: %v", err)
}
