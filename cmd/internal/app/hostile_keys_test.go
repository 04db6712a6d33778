package app_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/config"
	"carillon/command/sealing"
	"carillon/projections/pgtest"
)

// thief has every file of an installation, and its master key.
type thief struct {
	*testing.T
	files  map[string][]byte
	master []byte
}

// steal reads all files below some directories.
func (p *process) steal(dirs ...string) thief {
	p.Helper()
	s := thief{T: p.T, files: map[string][]byte{}}
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
		if err != nil {
			p.Fatal(err)
		}
	}
	key, err := os.ReadFile(filepath.Join(p.cfg.DataDir, config.MasterKeyFile))
	if err == nil {
		s.master, err = base64.StdEncoding.DecodeString(strings.TrimSpace(string(key)))
	}
	if err != nil {
		p.Fatal(err)
	}
	return s
}

// epochs are the epoch keys that some file has, in the form in which they are kept.
func (s thief) epochs() (keys [][]byte) {
	for _, data := range s.files {
		for at := bytes.Index(data, []byte("EPO1")); at >= 0 && len(data) >= at+64; {
			keys = append(keys, data[at+32:at+64])
			next := bytes.Index(data[at+1:], []byte("EPO1"))
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	return keys
}

// opened says in which files there is a data key of a destination that opens.
func (s thief) opened(owner uuid.UUID) (where []string) {
	s.Helper()
	const wrapped = 1 + 8 + 1 + 12 + 64 + 16
	for _, epoch := range append([][]byte{nil}, s.epochs()...) {
		ring, err := sealing.NewRing(s.master)
		if err == nil && epoch != nil {
			err = ring.UseEpochs([][]byte{epoch})
		}
		if err != nil {
			s.Fatal(err)
		}
		by, err := ring.Current()
		if err != nil {
			s.Fatal(err)
		}
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

// TestHostileShreddedIsShredded: after a deletion, with all files of the event store, the key store and Postgres, its log
// included, and with the master key in hand, nothing opens what the destination had.
func TestHostileShreddedIsShredded(t *testing.T) {
	database := pgtest.NewServer(t)
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, func(cfg *config.Config) { cfg.DatabaseURL = config.Address(database.URL()) })
	gone, stays := uuid.MustParse(p.destination("gone", nowhere, 0)), uuid.MustParse(p.destination("stays", nowhere, 0))
	want := p.secret("stays")
	var cluster string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&cluster); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil { // so that the heap is in its files as well as in the log
		t.Fatal(err)
	}
	before := p.steal(p.cfg.DataDir, cluster)
	slot, heap := false, false // the log may have it in a compressed page
	for _, path := range before.opened(gone) {
		slot, heap = slot || strings.HasSuffix(path, "keys/slots"), heap || strings.Contains(path, "/base/")
	}
	if !slot || !heap {
		t.Fatalf("before the deletion the thief finds it in %v; the test would show nothing", before.opened(gone))
	}
	epochs := before.epochs()

	p.call(http.MethodDelete, destinations+"gone", nil, http.StatusOK)
	if status, body := p.admin(http.MethodPost, "/admin/keys/renew"); status != http.StatusOK {
		t.Fatalf("renew: %d %s", status, body)
	}
	if got := p.secret("stays"); got != want {
		t.Errorf("the other's secret is %s", got)
	}
	if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := p.steal(p.cfg.DataDir, cluster)
	if where := after.opened(gone); len(where) > 0 {
		t.Errorf("a shredded key opens: %v", where)
	}
	if len(after.opened(stays)) == 0 {
		t.Error("the other key is not found either: the test shows nothing")
	}
	for _, epoch := range epochs {
		if where := after.has(epoch); len(where) > 0 {
			t.Errorf("an old epoch key is in %v", where)
		}
	}
	p.restart()
	if got := p.shown("stays"); got != want {
		t.Errorf("after a restart the other's secret is %s", got)
	}
	p.refused(http.MethodGet, fmt.Sprint(destinations, gone), nil, http.StatusNotFound, "NOT_FOUND")
}
