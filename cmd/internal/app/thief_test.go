package app_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/must"
)

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
