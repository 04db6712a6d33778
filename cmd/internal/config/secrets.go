package config

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"carillon/command/webhook"
	"carillon/eventstore/durable"
)

// Files in the data directory that hold what is made once.
const (
	MasterKeyFile  = "master.key"
	AdminTokenFile = "admin.token"

	nextMasterKeyFile = "master.key.next" // while it takes the other's place
	keysDir           = "keys"
)

const keySize = 32 // bytes of a master key, and of a made token before it is written in hex

// EnsureSecrets fills MasterKey and AdminToken if they were not given: from their files in the data directory, or, the
// first time, with new random values that are then stored there, readable by this user only. Processes that start at
// the same moment agree on one value.
func (c *Config) EnsureSecrets() error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return fmt.Errorf("data directory: %w; create it, or point CARILLON_DATA_DIR elsewhere", err)
	}
	if err := c.CheckOwners(); err != nil {
		return err
	}
	c.splitMasterKey()
	if c.MasterKey == "" {
		path, fresh := filepath.Join(c.DataDir, MasterKeyFile), newKey()
		key, err := onceMade(path, fresh)
		if err != nil {
			return err
		}
		c.masterMade = key == fresh
		if _, err := decodeMasterKey(key); err != nil {
			return fmt.Errorf("%s does not hold a master key: restore it from a backup; without it nothing that is stored "+
				"encrypted can be read", path)
		}
		c.MasterKey, c.masterInFile = Secret(key), true
		if err := c.readNext(); err != nil {
			return err
		}
	}
	if c.AdminToken == "" {
		random := make([]byte, keySize)
		_, _ = rand.Read(random) // never fails
		path := filepath.Join(c.DataDir, AdminTokenFile)
		token, err := onceMade(path, hex.EncodeToString(random))
		if err != nil {
			return err
		}
		if len(token) < minTokenLength || strings.ContainsFunc(token, unicode.IsControl) { // zeros after a crash
			return fmt.Errorf("%s does not hold an admin token: delete it, and a new one is made", path)
		}
		c.AdminToken = Secret(token)
	}
	return c.ensureSealKey()
}

// Master is the master key's 32 bytes. Call EnsureSecrets first.
func (c *Config) Master() ([]byte, error) { return decodeMasterKey(c.MasterKey.Reveal()) }

// ReadMasters are the master keys that are there, the one in use first; none is made.
func (c *Config) ReadMasters() (keys [][]byte, err error) {
	c.splitMasterKey()
	if c.MasterKey == "" {
		path := filepath.Join(c.DataDir, MasterKeyFile)
		key, err := readPrivate(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no master key: put it into %s, or set CARILLON_MASTER_KEY", path)
		}
		if err != nil {
			return nil, err
		}
		c.MasterKey = Secret(key)
		if err := c.readNext(); err != nil {
			return nil, err
		}
	}
	for _, key := range []Secret{c.MasterKey, c.nextMaster} {
		if key == "" {
			continue
		}
		raw, err := decodeMasterKey(key.Reveal())
		if err != nil {
			return nil, wrong("CARILLON_MASTER_KEY", "must be 32 bytes in base64")
		}
		keys = append(keys, raw)
	}
	return keys, nil
}

// NextMaster is the master key that will replace the other; nil if there is none. Call EnsureSecrets first.
func (c *Config) NextMaster() ([]byte, error) {
	if c.nextMaster == "" {
		return nil, nil
	}
	return decodeMasterKey(c.nextMaster.Reveal())
}

// splitMasterKey parts a list: the key in use, and the one that is to take its place.
func (c *Config) splitMasterKey() {
	if current, next, listed := strings.Cut(c.MasterKey.Reveal(), ","); listed {
		c.MasterKey, c.nextMaster = Secret(strings.TrimSpace(current)), Secret(strings.TrimSpace(next))
	}
}

// MasterInFile reports whether the master key is kept in the data directory, and not given. Call EnsureSecrets first.
func (c *Config) MasterInFile() bool { return c.masterInFile }

// ForgetMadeMaster removes the master key if this process has made it, so that it is not mistaken for the missing one.
// It reports whether it did. It is for a refused start.
func (c *Config) ForgetMadeMaster() bool {
	return c.masterMade && os.Remove(filepath.Join(c.DataDir, MasterKeyFile)) == nil
}

// readNext takes in the next master key of a rotation that was cut off.
func (c *Config) readNext() error {
	path := filepath.Join(c.DataDir, nextMasterKeyFile)
	key, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := decodeMasterKey(key); err != nil {
		return fmt.Errorf("%s does not hold a master key: restore it from a backup", path)
	}
	c.nextMaster = Secret(key)
	return nil
}

// MakeNextMaster makes the next master key in the data directory, durably, or reads the one that is there.
func (c *Config) MakeNextMaster() ([]byte, error) {
	key, err := onceMade(filepath.Join(c.DataDir, nextMasterKeyFile), newKey())
	if err != nil {
		return nil, err
	}
	return decodeMasterKey(key)
}

// KeepNextMaster lets the next master key take the place of the one in the data directory, which is overwritten. It
// does nothing if that has happened.
func (c *Config) KeepNextMaster() error {
	path, next := filepath.Join(c.DataDir, MasterKeyFile), filepath.Join(c.DataDir, nextMasterKeyFile)
	if _, err := os.Stat(next); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	old, err := os.OpenFile(path, os.O_WRONLY, 0) //nolint:gosec // the path is the operator's own
	if err != nil {
		return fmt.Errorf("keep the next master key: %w", err)
	}
	err = os.Rename(next, path)
	if err == nil {
		err = durable.SyncDir(c.DataDir)
	}
	if err == nil {
		_, err = old.WriteAt(make([]byte, base64.StdEncoding.EncodedLen(keySize)), 0)
	}
	if err == nil {
		err = old.Sync()
	}
	if err = errors.Join(err, old.Close()); err != nil {
		return fmt.Errorf("keep the next master key: %w", err)
	}
	return nil
}

// newKey returns a random key in base64.
func newKey() string {
	random := make([]byte, keySize)
	_, _ = rand.Read(random) // never fails
	return base64.StdEncoding.EncodeToString(random)
}

func decodeMasterKey(text string) ([]byte, error) {
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding,
		base64.RawURLEncoding} {
		if key, err := encoding.DecodeString(text); err == nil && len(key) == keySize {
			return key, nil
		}
	}
	return nil, errors.New("not 32 bytes in base64")
}

// onceMade returns the content of a file, and writes a fresh value if it is missing. The value is durable before the
// file has its name, and the name is given by link, which never replaces: of two processes the first one wins.
func onceMade(path, fresh string) (string, error) {
	value, err := readPrivate(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return value, err
	}
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return "", fmt.Errorf("keep a secret in the data directory: %w; this user must be able to write there", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.WriteString(fresh + "\n")
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Link(file.Name(), path)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return readPrivate(path)
	case err != nil:
		return "", fmt.Errorf("keep a secret in %s: %w", path, err)
	}
	return fresh, durable.SyncDir(dir)
}

// readPrivate reads a file that no one else may read.
func readPrivate(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s can be read by others: run \"chmod 600 %s\", and consider its content as leaked",
			path, path)
	}
	data, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own
	if err != nil {
		return "", fmt.Errorf("read a secret: %w", err)
	}
	return strings.TrimSpace(strings.TrimPrefix(string(data), byteOrderMark)), nil
}

func (c *Config) checkOperatorWebhook() error {
	url, secret := c.OperatorWebhook.Reveal(), c.OperatorWebhookSecret.Reveal()
	switch {
	case url == "" && secret == "":
		return nil
	case url == "":
		return wrong("CARILLON_OPERATOR_WEBHOOK", "is missing: CARILLON_OPERATOR_WEBHOOK_SECRET is of no use without it")
	case !hasScheme(url, "https", "http"):
		return wrong("CARILLON_OPERATOR_WEBHOOK", "must look like https://host/path")
	}
	if _, err := webhook.ParseSecret(secret); err != nil {
		return wrong("CARILLON_OPERATOR_WEBHOOK_SECRET", "must be whsec_ and 24 to 64 bytes in base64: make it with "+
			"\"echo whsec_$(openssl rand -base64 32)\"")
	}
	return nil
}
