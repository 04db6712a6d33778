//go:build containers

package containers_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const (
	carillonImage = "carillon" // make image
	postgresImage = "carillon-test-postgres"
	receiverImage = "carillon-test-receiver"
)

// hasImage reports whether the engine has an image.
func hasImage(t *testing.T, name string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), "docker", "image", "inspect", name).Run() == nil
}

// needPostgres makes an image of Postgres 15 from Debian's packages, unless the engine has one already.
func needPostgres(t *testing.T) {
	t.Helper()
	if hasImage(t, postgresImage) {
		return
	}
	if _, err := exec.LookPath("debootstrap"); err != nil || os.Getuid() != 0 {
		t.Skipf("an image %s, or debootstrap and root, are needed for Postgres", postgresImage)
	}
	dir := t.TempDir()
	run(t, "", "debootstrap", "--variant=minbase", "--include=postgresql-15", "bookworm", dir)
	run(t, "", "sh", "-c", `tar -C "$1" -c . | docker import - "$2"`, "sh", dir, postgresImage)
}

// makeReceiver makes an image that receives webhooks.
func makeReceiver(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "receiver"), "./testdata/receiver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	dockerfile := "FROM scratch\nCOPY receiver /receiver\nENTRYPOINT [\"/receiver\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, dir, "docker", "build", "-q", "-t", receiverImage, ".")
}

func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...) //nolint:gosec // of this test
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}
