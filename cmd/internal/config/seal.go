package config

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
)

// SealKeyFile is the file in the data directory with the key that signs tree heads, if none is given.
const SealKeyFile = "seal.key"

// ensureSealKey fills SealKey as EnsureSecrets does.
func (c *Config) ensureSealKey() error {
	if c.SealKey != "" {
		return nil
	}
	path := filepath.Join(c.DataDir, SealKeyFile)
	key, err := onceMade(path, newKey())
	if err != nil {
		return err
	}
	if _, err := decodeMasterKey(key); err != nil {
		return fmt.Errorf("%s does not hold the key that signs tree heads: restore it from a backup, or delete it, and a "+
			"new one is made", path)
	}
	c.SealKey = Secret(key)
	return nil
}

// SealSigner returns the key that signs tree heads. Call EnsureSecrets first.
func (c *Config) SealSigner() (ed25519.PrivateKey, error) {
	seed, err := decodeMasterKey(c.SealKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("CARILLON_SEAL_KEY: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

func (c *Config) checkSeal() error {
	if c.SealKey != "" {
		if _, err := decodeMasterKey(c.SealKey.Reveal()); err != nil {
			return wrong("CARILLON_SEAL_KEY", "must be 32 bytes in base64: make them with \"openssl rand -base64 32\"")
		}
	}
	to := c.SealTo.Reveal()
	if !strings.Contains(to, "://") {
		return nil
	}
	if address, err := url.Parse(to); err != nil || address.Scheme != "https" || address.Host == "" {
		return wrong("CARILLON_SEAL_TO", "must name a file, or look like https://host/path")
	}
	return nil
}

// PublicSealKeys returns the keys that tree heads are trusted by: those listed in base64, or else that of a server on
// the data directory. It returns none if there is neither.
func PublicSealKeys(listed []string, given Secret, dataDir string) (keys []ed25519.PublicKey, err error) {
	for _, text := range listed {
		key, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("--key must be a public key in base64, as \"carillon audit seal\" prints it: %q", text)
		}
		keys = append(keys, key)
	}
	if len(keys) > 0 {
		return keys, nil
	}
	c := Config{DataDir: dataDir, SealKey: given}
	if c.SealKey == "" {
		key, err := readPrivate(filepath.Join(dataDir, SealKeyFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		c.SealKey = Secret(key)
	}
	signer, err := c.SealSigner()
	if err != nil {
		return nil, err
	}
	public, _ := signer.Public().(ed25519.PublicKey)
	return []ed25519.PublicKey{public}, nil
}
