//go:build nightly

package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/storetest/must"
)

// typed uses the types of both documents as openapi-typescript makes them.
const typed = `import type { components, paths, webhooks } from "./public";
import type { paths as adminPaths } from "./admin";

type Destination = components["schemas"]["Destination"];
type Created = paths["/events/destinations"]["post"]["responses"][201];
type Sources = adminPaths["/admin/sources"]["get"]["responses"][200];
type Received = keyof webhooks;

export const shown = (d: Destination): string => d.name;
export type Used = [Created, Sources, Received];
`

// TestTypeScriptTypesCompile makes types of each document, which tsc accepts. It needs both programs.
func TestTypeScriptTypesCompile(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"openapi-typescript", "tsc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %s is not installed (npm install -g openapi-typescript typescript): no types were made", program)
		}
	}
	dir := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		said, err := command.CombinedOutput()
		must.True(t, err == nil, "%s %q: %v\n%.4000s", name, args, err, said)
	}
	for name, document := range map[string]func() ([]byte, error){"public": httpapi.OpenAPI, "admin": adminapi.OpenAPI} {
		content := must.Get(document())(t)
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".json"), content, 0o600))
		run("openapi-typescript", name+".json", "--output", name+".d.ts")
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "used.ts"), []byte(typed), 0o600))
	run("tsc", "--strict", "--noEmit", "used.ts", "public.d.ts", "admin.d.ts")
}
