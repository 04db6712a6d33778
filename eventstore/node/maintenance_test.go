package node_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

// A damaged store is evidence, and a backup must not change.
func TestVerifyChangesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(20)...)
	dir := filepath.Join(t.TempDir(), "backup") // its newest events are in the write-ahead log alone
	if err := s.Backup(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	files := func() (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && entry.Name() != "LOCK" {
				names = append(names, fmt.Sprint(entry.Name(), info.Size(), info.ModTime()))
			}
		}
		return names
	}
	before := files()
	report, err := node.Verify(t.Context(), node.Config{Dir: dir}, nil)
	if err != nil || !report.OK() || report.Events != 20 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if after := files(); !slices.Equal(after, before) {
		t.Errorf("files were %s, now %s", before, after)
	}
}

func TestVerifyFindsFlippedBits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	for i := range 20 {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, events(20)...)
	}
	s.stop(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%v, %v", tables, err)
	}
	for _, table := range tables {
		content, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/3] ^= 4
		if err := os.WriteFile(table, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if report, err := node.Verify(t.Context(), node.Config{Dir: dir}, nil); err != nil || report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	if _, err := node.Verify(t.Context(), node.Config{Dir: filepath.Join(dir, "none")}, nil); err == nil {
		t.Error("verified a node that isn't there")
	}
}
