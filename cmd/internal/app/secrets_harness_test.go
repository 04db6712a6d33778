package app_test

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command/mtls/mtlstest"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/must"
)

// wanting starts a receiver that is trusted through the development authority and asks for certificates as want says.
func wanting(t testing.TB, dataDir string, want *tls.Config) *mtlstest.Receiver {
	t.Helper()
	authority := must.Get(dev.EnsureAuthority(dataDir))(t)
	own := must.Get(authority.Certificate())(t)
	want.Certificates = []tls.Certificate{own}
	return mtlstest.Receive(t, want, nil)
}

// operator is the admin API as the command line uses it.
func (p *process) operator() *adminclient.Client {
	p.Helper()
	return adminclient.New("http://"+p.app.AdminAddr().String(), p.adminToken())
}

// certify sets the certificate. From then on it is shown.
func (p *process) certify(pair mtlstest.Pair) {
	p.Helper()
	must.Get(p.operator().SetClientCertificate(p.Context(), p.organization, pair.Chain, pair.Key))(p)
}

// certificate is the id of the certificate that is shown.
func (p *process) certificate() uuid.UUID {
	p.Helper()
	known := must.Get(clientcertificate.Aggregate.Load(p.Context(), p.app.Commands.Store, p.organization))(p)
	return known.State.Certificate.ID
}

func (p *process) arrived(r *mtlstest.Receiver, name string, n int) {
	p.Helper()
	p.eventually(name+" is shown", func() bool {
		shown := r.Shown()
		return len(shown) >= n && !slices.ContainsFunc(shown[len(shown)-n:], func(s string) bool { return s != name })
	})
}

// keyParts are pieces of a private key, of its bytes and of how they are written.
func keyParts(t testing.TB, pair mtlstest.Pair) [][]byte {
	t.Helper()
	block, _ := pem.Decode([]byte(pair.Key))
	if block == nil {
		t.Fatal("no key")
		return nil
	}
	secret := block.Bytes[36:68] // the secret number of a key on P-256, in PKCS #8
	parts := [][]byte{secret, []byte(fmt.Sprintf("%x", secret)), []byte(base64.StdEncoding.EncodeToString(secret))}
	for line := range strings.Lines(pair.Key) {
		if !strings.HasPrefix(line, "-----") {
			parts = append(parts, []byte(strings.TrimSpace(line)))
		}
	}
	return parts
}

// thief has every file of an installation, and its master key.
type thief struct {
	testing.TB
	files  map[string][]byte
	master []byte
}

// steal reads all files below some directories.
func (p *process) steal(dirs ...string) thief {
	p.Helper()
	s := thief{TB: p.TB, files: map[string][]byte{}}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				var data []byte
				if data, err = os.ReadFile(path); err == nil { //nolint:gosec // the test's own
					s.files[path] = data
				}
			}
			if errors.Is(err, fs.ErrNotExist) && path != dir {
				return nil // both go on writing meanwhile: Postgres deletes files, and so does the store
			}
			return err
		})
		must.OK(p, err)
	}
	key, err := os.ReadFile(filepath.Join(p.cfg.DataDir, config.MasterKeyFile))
	if err == nil {
		s.master, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(key)))
	}
	must.OK(p, err)
	return s
}

// epochs returns the epoch keys that some file has.
func (s thief) epochs() (keys [][]byte) {
	for path, data := range s.files {
		if strings.HasPrefix(filepath.Base(path), "epoch-") {
			keys = append(keys, data[:32])
		}
	}
	return keys
}

// opened returns the files with a data key of a destination that opens.
func (s thief) opened(owner uuid.UUID) (where []string) {
	s.Helper()
	const wrapped = 1 + 8 + 1 + 12 + 64 + 16
	for _, epoch := range append([][]byte{nil}, s.epochs()...) {
		ring, err := sealing.NewRing(s.master)
		if err == nil && epoch != nil {
			err = ring.UseEpochs([][]byte{epoch})
		}
		must.OK(s, err)
		by := must.Get(ring.Current())(s)
		for path, data := range s.files {
			for from := 0; ; from++ {
				next := bytes.Index(data[from:], sealing.Prefix(by))
				if next < 0 {
					break
				}
				from += next
				if len(data) >= from+wrapped && ring.Opens(owner, data[from:from+wrapped]) == nil {
					where = append(where, path)
				}
			}
		}
	}
	return where
}

func (s thief) has(what []byte) (where []string) {
	for path, data := range s.files {
		if bytes.Contains(data, what) {
			where = append(where, path)
		}
	}
	return where
}
