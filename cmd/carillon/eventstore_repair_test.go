package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/eventstore/node"
)

// A flipped bit in the log of a killed node: the node says so and doesn't start, repair lists what is lost, and only
// with --accept-loss the node starts again.
func TestRepairOfADamagedLog(t *testing.T) {
	t.Parallel()
	running, damaged := t.TempDir(), t.TempDir()
	url, stop := standalone(t, running)
	publishThings(t, url, 70)
	copyFiles(t, running, damaged) // what kill -9 leaves
	stop()
	logs, err := filepath.Glob(filepath.Join(damaged, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	content, err := os.ReadFile(logs[len(logs)-1])
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/4] ^= 1
	if err := os.WriteFile(logs[len(logs)-1], content, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, task := range [][]string{{"verify"}, {"repair"}, {"run", "--addr", "127.0.0.1:0"}} {
		args := append(append([]string{"eventstore"}, task...), "--data", damaged)
		code, out, errors := runIn(t.Context(), "", args...)
		if code == 0 || !strings.Contains(errors, "--accept-loss") {
			t.Errorf("%s: exit code %d: %s%s", task, code, out, errors)
		}
		if task[0] == "repair" && (!strings.Contains(out, "lost: thing-") ||
			!strings.Contains(out, "is damaged at byte")) {
			t.Errorf("it doesn't list what is lost: %s", out)
		}
	}
	done := answer[repaired](t, "eventstore", "repair", "--accept-loss", "--data", damaged)
	lost := uint64(0)
	for _, l := range done.Lost {
		lost += l.Last - l.First + 1
	}
	report := answer[node.Report](t, "eventstore", "verify", "--data", damaged)
	if !done.Repaired || lost == 0 || report.Faults > 0 || report.Events+lost > 70 || report.Events+lost < 70 &&
		!done.Unnamed {
		t.Errorf("%d events of 70 are left: %+v, %+v", report.Events, done, report)
	}
	if kept, err := os.ReadDir(filepath.Join(damaged, "damaged")); err != nil || len(kept) != 1 {
		t.Errorf("kept: %v, %v", kept, err)
	}
}

// copyFiles copies a directory's regular files: a running node has a socket among them.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, entry.Name()), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
