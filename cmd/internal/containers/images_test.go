//go:build nightly

package containers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"carillon/eventstore/storetest/must"
)

const (
	carillonImage = "carillon-test"
	receiverImage = "carillon-test-receiver"
)

// TestMain sets what testcontainers can't find out: its reaper has no image here, and ports are at this machine.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"TESTCONTAINERS_RYUK_DISABLED": "true",
		"TESTCONTAINERS_HOST_OVERRIDE": "localhost",
	} {
		if os.Getenv(name) == "" {
			_ = os.Setenv(name, value)
		}
	}
	os.Exit(m.Run())
}

// needImages makes the images from this source. Without an engine, or if it can't, the test is skipped.
func needImages(t *testing.T) {
	t.Helper()
	testcontainers.SkipIfProviderIsNotHealthy(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	dockerfile := "FROM scratch\nCOPY receiver /receiver\nENTRYPOINT [\"/receiver\"]\n"
	must.OK(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600))
	for _, arguments := range [][]string{
		{"docker", "version"},
		{"make", "-C", "../../..", "image", "IMAGE=" + carillonImage},
		{"env", "CGO_ENABLED=0", "GOOS=linux", "go", "build", "-o", filepath.Join(dir, "receiver"), "./testdata/receiver"},
		{"docker", "build", "-q", "-t", receiverImage, dir},
	} {
		out, err := exec.CommandContext(ctx, arguments[0], arguments[1:]...).CombinedOutput() //nolint:gosec // see above
		if err != nil {
			t.Skipf("%v: %v: %s", arguments, err, out[max(0, len(out)-500):])
		}
	}
}

// postgresBinaries is the directory of Postgres' programs on this machine.
func postgresBinaries(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		t.Skip("there is no /usr/lib/postgresql")
	}
	return filepath.Dir(found[len(found)-1])
}
