package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
