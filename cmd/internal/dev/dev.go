// Package dev has what a server adds on a developer's machine: an organization with a key that is there from the first
// start on, and a certificate authority for receivers on loopback. None of it exists on a server that was started
// without --dev.
package dev

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

const (
	dirName  = "development"
	keyFile  = "api-key"
	dirMode  = 0o700
	fileMode = 0o600
)

// Loopback is what deliveries and collectors may reach in development, beside the public internet.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// ReadKey returns the development API key of a data directory, or fs.ErrNotExist.
func ReadKey(dataDir string) (string, error) {
	key, err := os.ReadFile(filepath.Join(dataDir, dirName, keyFile)) //nolint:gosec // the operator's own directory
	if err != nil {
		return "", fmt.Errorf("development key: %w", err)
	}
	return strings.TrimSpace(string(key)), nil
}

// KeepKey stores the development API key, readable by its owner only.
func KeepKey(dataDir, key string) error { return keep(dataDir, keyFile, []byte(key+"\n")) }

// keep writes a file as a whole or not at all.
func keep(dataDir, name string, content []byte) (err error) {
	dir := filepath.Join(dataDir, dirName)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("development files: %w", err)
	}
	temp, err := os.CreateTemp(dir, name+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("development files: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("development files: %w", err), os.Remove(temp.Name()))
		}
	}()
	if _, err := temp.Write(content); err != nil {
		return errors.Join(err, temp.Close())
	}
	if err := errors.Join(temp.Sync(), temp.Chmod(fileMode), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), filepath.Join(dir, name))
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
