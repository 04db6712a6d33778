package treeheads_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"carillon/command/treeheads"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/must"
)

// Heads in a file elsewhere are what a verification takes.
func TestTargetFile(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	path := filepath.Join(t.TempDir(), "heads")
	target := &treeheads.Target{To: path}
	for i := range heads {
		must.OK(t, target.Send(t.Context(), &heads[i]))
	}
	text := must.Get(os.ReadFile(path))(t)
	kept, err := seal.ReadHeads(bytes.NewReader(text))
	if err != nil || len(kept) != 4 {
		t.Fatalf("%d heads, %v", len(kept), err)
	}
	if report := verify(t, l, kept); !report.OK() || report.Elsewhere != 4 {
		t.Errorf("%+v", report)
	}
	for _, bad := range []string{"none\n{}\n", string(text) + `{"size":1,"root":"!","signature":"AA=="}`} {
		if _, err := seal.ReadHeads(strings.NewReader(bad)); err == nil {
			t.Errorf("heads were read of a file without any, or with one that can't be read: %s", bad)
		}
	}
}

// An address gets each head as a POST. Redirects are not followed, and errors don't name the address.
func TestTargetAddress(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	status, got := http.StatusNoContent, []seal.Head(nil)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		more, err := seal.ReadHeads(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Errorf("%s, %v", r.Method, err)
		}
		got = append(got, more...)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer server.Close()
	target := &treeheads.Target{To: server.URL + "/hunter2", Transport: server.Client().Transport}
	must.OK(t, target.Send(t.Context(), &heads[1]))
	if len(got) != 1 || !slices.Equal(got[0].Root, heads[1].Root) {
		t.Errorf("got %+v", got)
	}
	for _, status = range []int{http.StatusFound, http.StatusInternalServerError} {
		if err := target.Send(t.Context(), &heads[1]); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("status %d: %v", status, err)
		}
	}
	target.To = "https://127.0.0.1:1/hunter2"
	if err := target.Send(t.Context(), &heads[1]); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("without a server: %v", err)
	}
}

// After a write that failed a head has a line of its own, also if a part of the other one was written.
func TestTargetFileAfterFailure(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	dir := t.TempDir()
	link, path := filepath.Join(dir, "link"), filepath.Join(dir, "heads")
	must.OK(t, errors.Join(os.Symlink("/dev/full", link), os.WriteFile(path, []byte(`{"size":3,"ro`), 0o600)))
	target := &treeheads.Target{To: link}
	if err := target.Send(t.Context(), &heads[0]); err == nil {
		t.Fatal("written to a full disk")
	}
	must.OK(t, errors.Join(os.Remove(link), os.Symlink(path, link)))
	for i := range heads[:2] {
		must.OK(t, target.Send(t.Context(), &heads[i]))
	}
	text := must.Get(os.ReadFile(path))(t)
	if kept, err := seal.ReadHeads(bytes.NewReader(text)); err != nil || len(kept) != 2 {
		t.Errorf("%d heads of %q, %v", len(kept), text, err)
	}
	if err := (&treeheads.Target{To: dir}).Send(t.Context(), &heads[0]); err == nil {
		t.Error("written to a directory")
	}
}

// A file that does not answer, as on a mount whose server is away, is given up, and not opened twice.
func TestTargetFileHangs(t *testing.T) {
	t.Parallel()
	_, heads := sealed(t)
	path := filepath.Join(t.TempDir(), "pipe") // opening it waits for a reader
	must.OK(t, syscall.Mkfifo(path, 0o600))
	target := &treeheads.Target{To: path}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := target.Send(ended, &heads[0]); err == nil {
			t.Error("written without a reader")
		}
	}
	reader := must.Get(os.Open(path))(t)
	text, err := io.ReadAll(reader) // until the writer has closed it
	if kept, failed := seal.ReadHeads(bytes.NewReader(text)); len(kept) != 1 || failed != nil {
		t.Errorf("%d heads of %q, %v, %v", len(kept), text, failed, err)
	}
	if err := reader.Close(); err != nil {
		t.Error(err)
	}
}
