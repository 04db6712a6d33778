package maintenance_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestRestore_removesLeftovers(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	backup, parent := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	must.OK(t, open(t, r.dir).Backup(t.Context(), backup))
	names := func() (list []string) {
		t.Helper()
		entries := must.Get(os.ReadDir(parent))(t)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	for _, dir := range []string{".store-restoring-123", ".store-restoring-mine", ".other-restoring-1"} {
		must.OK(t, os.MkdirAll(filepath.Join(parent, dir, "deep"), 0o700))
	}
	others := []string{".other-restoring-1", ".store-restoring-mine"}
	// A running restore keeps its directory, while another comes and goes.
	begun, goOn, slow := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dir := filepath.Join(parent, "store")
	go func() {
		waited := false
		_, err := maintenance.Restore(t.Context(), backup, dir, silent, func(_, _ uint64) {
			if !waited {
				waited = true
				begun <- struct{}{}
				<-goOn
			}
		}, nil)
		slow <- err
	}()
	<-begun
	if list := names(); len(list) != 3 || slices.Contains(list, ".store-restoring-123") {
		t.Errorf("while one is at work: %v", list)
	}
	assert.Equal(t, must.Get(maintenance.Restore(t.Context(), backup, dir, silent, nil, nil))(t).Events, 51, "restore")
	close(goOn)
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "take the place of") {
		t.Errorf("the slower of two: %v, want that it was too late", err)
	}
	assert.Slices(t, names(), append(others, "store"), "afterwards")
}
