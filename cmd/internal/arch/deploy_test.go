package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestVulnerabilitiesAreNoPartOfTheCheck: their database may be out of reach, and its content changes by itself; a
// commit must not fail for it.
func TestVulnerabilitiesAreNoPartOfTheCheck(t *testing.T) {
	t.Parallel()
	makefile := text(t, "../../../Makefile")
	targets := regexp.MustCompile(`(?m)^(check|race|test|lint|vuln):([^#=\n]*)(?:#|$)`).FindAllStringSubmatch(makefile, -1)
	must.True(t, len(targets) == 5, "the Makefile has the targets %q", targets)
	for _, target := range targets {
		if strings.Contains(target[2], "vuln") {
			t.Errorf("%s needs vuln:%s", target[1], target[2])
		}
	}
	assert.True(t, strings.Contains(makefile, "$(TOOL) govulncheck"), "make vuln does not call govulncheck")
	pinned := text(t, "../../../.ci/tools/go.mod")
	assert.True(t, regexp.MustCompile(`(?m)^\s*golang\.org/x/vuln v\d`).MatchString(pinned) &&
		strings.Contains(pinned, "golang.org/x/vuln/cmd/govulncheck"), "govulncheck is not pinned in .ci/tools/go.mod")
}

// TestOnlyReleasesOfPostgresAreTaken: the installer skips betas and releases that are too old.
func TestOnlyReleasesOfPostgresAreTaken(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"18.4": true, "15.14 (Debian 15.14-0+deb12u1)": true, "17.2 - Percona Server": true,
		"19beta1": false, "19rc1": false, "19devel": false, "14.9": false, "19beta2 (Ubuntu 19~beta2-1)": false,
	} {
		dir := t.TempDir()
		for program, script := range map[string]string{
			"postgres": "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n",
			"initdb":   "#!/bin/sh\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, program), []byte(script),
				0o700); err != nil { //nolint:gosec // it is to be run
				t.Fatal(err)
			}
		}
		command := exec.CommandContext(t.Context(), "sh", "../../../deploy/install-postgres.sh")
		command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "CARILLON_POSTGRES_BIN=" + dir}
		out, err := command.CombinedOutput()
		assert.True(t, (err == nil) == want, "Postgres %s: taken %t, want %t: %s", version, err == nil, want, out)
	}
}

// TestBaseImagesAreNamedByDigest, but for those of EventStoreDB, of which no digest is published that could be checked.
func TestBaseImagesAreNamedByDigest(t *testing.T) {
	t.Parallel()
	unknown := []string{"eventstore/eventstore:24.10", "eventstore/es-gencert-cli:1.0.2"}
	digest := regexp.MustCompile(`^[a-z0-9/:.-]+@sha256:[0-9a-f]{64}$`)
	named := regexp.MustCompile(`(?m)^\s*image: (?:\$\{[A-Z]+_IMAGE:-)?([^\s}]+)`).
		FindAllStringSubmatch(text(t, "../../../deploy/compose.yaml"), -1)
	for _, m := range named {
		if image := m[1]; image != "carillon" && !digest.MatchString(image) && !slices.Contains(unknown, image) {
			t.Errorf("%s is named without a digest", image)
		}
	}
	assert.True(t, len(named) == 4, "%d images are named, want 4", len(named))
}

func text(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

// TestMakeTargetsFitTheTerminal requires each line that `make` prints to have at most 80 columns.
func TestMakeTargetsFitTheTerminal(t *testing.T) {
	t.Parallel()
	const name, columns = 16, 80 // the width of names is the help target's
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## (.*)$`).FindAllStringSubmatch(text(t, "../../../Makefile"), -1)
	must.True(t, len(targets) >= 20, "the Makefile explains %d targets", len(targets))
	for _, target := range targets {
		if width := len("  ") + max(name, len(target[1])) + len(" ") + len([]rune(target[2])); width > columns {
			t.Errorf("make shows %s in %d columns", target[1], width)
		}
	}
}

// TestMakeRunInstallsWhileItBuilds has a Postgres whose installation takes until the compiler runs.
func TestMakeRunInstallsWhileItBuilds(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(dir, "deploy"), 0o700))
	must.OK(t, syscall.Mkfifo(filepath.Join(dir, "compiling"), 0o600))
	const compiler = "#!/bin/sh\n" + `[ "$1" = build ] || exit 0
mkdir bin && printf '#!/bin/sh\necho "carillon $*"\n' >bin/carillon && chmod +x bin/carillon && echo yes >compiling
`
	for name, content := range map[string]string{
		"Makefile":                   text(t, "../../../Makefile"),
		"deploy/install-postgres.sh": "read yes <compiling\n",
		"compiler":                   compiler,
	} {
		//nolint:gosec // it is run
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700))
	}
	run := exec.CommandContext(t.Context(), "make", "run", "GO="+filepath.Join(dir, "compiler"))
	run.Dir = dir
	out, err := run.CombinedOutput()
	assert.True(t, err == nil && strings.HasSuffix(string(out), "carillon serve --dev --data-dir ./data\n"),
		"%v: %s", err, out)
}

// TestWorkflowsCallTheMakefile, which says how a release is built.
func TestWorkflowsCallTheMakefile(t *testing.T) {
	t.Parallel()
	called := regexp.MustCompile(`(?m)- run: make ([a-z-]+)$`).FindAllStringSubmatch(
		text(t, "../../../.github/workflows/release.yml"), -1)
	assert.True(t, len(called) == 1 && strings.Contains(text(t, "../../../Makefile"), "\n"+called[0][1]+": ##"),
		"the workflow calls %v", called)
}

// TestReleaseNeedsItsTag refuses what the changelog does not call released, and another tag.
func TestReleaseNeedsItsTag(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"make", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	for changelog, want := range map[string]string{
		"## [1.2.0] - Unreleased\n": "Name the day",
		"## [1.2.0] - 2026-12-24\n": "Tag this commit v1.2.0",
		"## [1.1.0] - 2026-12-24\n": "no rule to make target", // all is well so far: there is nothing to build here
	} {
		dir := t.TempDir()
		makefile := strings.ReplaceAll(text(t, "../../../Makefile"), "$(MAKE) dist", "$(MAKE) nothing-to-build")
		for name, content := range map[string]string{"Makefile": makefile, "docs/changelog.md": changelog} {
			must.OK(t, os.MkdirAll(filepath.Join(dir, "docs"), 0o700))
			must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		run := exec.CommandContext(t.Context(), "sh", "-c", "git init -q && git add . && "+
			"git -c user.name=a -c user.email=a@b.c commit -qm all && git tag v1.1.0 && exec make release")
		run.Dir = dir
		out, err := run.CombinedOutput()
		assert.True(t, err != nil && strings.Contains(strings.ToLower(string(out)), strings.ToLower(want)),
			"%s: %v, %s, want %q", changelog, err, out, want)
	}
}
