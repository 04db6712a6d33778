//go:build nightly

package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"carillon/cmd/internal/config"
)

// TestHostileKillsInARotation: a real process that is killed at any instant of a rotation of the master key comes up
// with all secrets, and the rotation ends.
func TestHostileKillsInARotation(t *testing.T) {
	const owned = 12
	kills := 3
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		kills = n
	}
	s := newSeveral(t, 1, true)
	if got := s.destinations(owned); got[http.StatusCreated] != owned {
		t.Fatalf("destinations are answered %v", got)
	}
	type secrets struct {
		Secrets []struct {
			ID     string `json:"id"`
			Secret string `json:"secret"`
		} `json:"secrets"`
	}
	read := func(i int) string {
		var got secrets
		s.eventually("a secret can't be read", func() bool {
			return s.ask(http.MethodGet, fmt.Sprintf("%s/events/destinations/d%d/secrets", s.apis[0], i), nil,
				&got) == http.StatusOK
		})
		return fmt.Sprint(got.Secrets)
	}
	want := make([]string, owned)
	for i := range want {
		want[i] = read(i)
	}
	master := func() string {
		key, err := os.ReadFile(filepath.Join(s.data, config.MasterKeyFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(key)
	}
	first, finished := master(), 0
	for range kills {
		answered := make(chan int, 1)
		go func() { answered <- s.ask(http.MethodPost, s.admins[0]+"/admin/keys/rotate-master", nil, nil) }()
		time.Sleep(time.Duration(rand.IntN(120)) * time.Millisecond) //nolint:gosec // kills come at any moment, by chance
		s.servers[0].kill()
		if <-answered == http.StatusOK {
			finished++
		}
		s.servers[0].start()
		s.eventually("the server does not come up", func() bool { return s.ready(0) })
		for i := range want {
			if got := read(i); got != want[i] {
				t.Fatalf("the secrets of d%d are others", i)
			}
		}
		s.eventually("the rotation that was cut off is not finished", func() bool {
			_, err := os.Stat(filepath.Join(s.data, config.MasterKeyFile+".next"))
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	s.eventually("the master key can't be rotated", func() bool {
		return s.ask(http.MethodPost, s.admins[0]+"/admin/keys/rotate-master", nil, nil) == http.StatusOK
	})
	if master() == first {
		t.Error("the master key is the first one")
	}
	for i := range want {
		if got := read(i); got != want[i] {
			t.Errorf("at the end the secrets of d%d are others", i)
		}
	}
	t.Logf("%d kills, of %d rotations that were answered before", kills, finished)
}
