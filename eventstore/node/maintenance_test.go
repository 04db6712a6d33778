package node_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

func TestBackupIsANode(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client := s.client(t)
	for i := range 50 {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, events(3)...)
	}
	want := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 1000)
	copied := filepath.Join(t.TempDir(), "backup")
	if err := s.Backup(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	if err := s.Backup(t.Context(), copied); err == nil {
		t.Error("a backup was overwritten")
	}
	appendTo(t, client, "later", esdb.NoStream{}, events(1)...)

	restored := serve(t, node.Config{Dir: copied}).client(t)
	got := readAll(t, restored, esdb.ReadAllOptions{From: esdb.Start{}}, 1000)
	if len(got) != len(want) {
		t.Fatalf("%d events of %d", len(got), len(want))
	}
	for i := range want {
		if got[i].Event.EventID != want[i].Event.EventID || got[i].Event.Position != want[i].Event.Position {
			t.Fatalf("event %d differs", i)
		}
	}
	appendTo(t, restored, "s-1", esdb.Revision(2), events(1)...)
}

func TestScavengeFreesSpaceAndVerifies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	ctx := context.Background()
	for i := range 30 {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, events(20)...)
	}
	for i := range 10 {
		setMetadata(t, client, fmt.Sprintf("s-%d", i), func(m *esdb.StreamMetadata) { m.SetMaxCount(5) })
	}
	if _, err := client.DeleteStream(ctx, "s-20", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.TombstoneStream(ctx, "s-21",
		esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	calls := 0
	removed, err := s.Scavenge(t.Context(), func(done, total uint64) {
		calls++
		if done > total {
			t.Errorf("progress %d of %d", done, total)
		}
	})
	if err != nil || removed.Events != 10*15+20+20 || removed.Bytes == 0 || calls == 0 {
		t.Errorf("scavenged %+v, %v", removed, err)
	}
	if again, err := s.Scavenge(t.Context(), nil); err != nil || again.Events != 0 {
		t.Errorf("scavenged again %+v, %v", again, err)
	}
	if all := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 2000); len(all) != 30*20+12-190 {
		t.Errorf("$all has %d events", len(all))
	}
	report, err := s.Verify(t.Context(), nil)
	if err != nil || !report.OK() || report.Events != 30*20+12-190 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	s.stop(t)
	if report, err = node.Verify(t.Context(), node.Config{Dir: dir}, nil); err != nil || !report.OK() {
		t.Errorf("verify the closed node: %+v, %v", report, err)
	}
	if _, err := node.Verify(t.Context(), node.Config{Dir: filepath.Join(dir, "none")}, nil); err == nil {
		t.Error("verified a node that isn't there")
	}
	client = serve(t, node.Config{Dir: dir}).client(t)
	if result := appendTo(t, client, "s-20", esdb.NoStream{}, events(1)...); result.NextExpectedVersion != 20 {
		t.Errorf("the deleted stream goes on with %d", result.NextExpectedVersion)
	}
}

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
}
