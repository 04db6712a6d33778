//go:build nightly

package openapi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi"
)

const (
	generator = "github.com/oapi-codegen/oapi-codegen/v2"
	version   = "@v2.8.2"
	runtime   = "github.com/oapi-codegen/runtime@v1.9.0"

	// Webhooks are used by no path: without skip-prune their types are left out.
	settings = "generate: { models: true, client: true }\noutput-options: { skip-prune: true }\n"

	// program uses both clients, and the types of a webhook.
	program = `package main

import (
	"fmt"

	"clients/admin"
	"clients/public"
)

func main() {
	api, err := public.NewClientWithResponses("http://127.0.0.1:8080")
	operators, failed := admin.NewClientWithResponses("http://127.0.0.1:8081")
	fmt.Println(api.ListDestinationsWithResponse, operators.ListSourcesWithResponse, err, failed)
	fmt.Println(public.NewsItemAdded{Data: public.NewsItemAddedData{Title: "Snow"}}.Sequence)
}
`
)

// TestGeneratedClientsCompile generates a client in Go from each document.
func TestGeneratedClientsCompile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(args ...string) (string, error) {
		command := exec.CommandContext(t.Context(), "go", args...)
		command.Dir = dir
		command.Env = append(os.Environ(), "GOFLAGS=-mod=mod")
		said, err := command.CombinedOutput()
		return string(said), err
	}
	must := func(args ...string) {
		t.Helper()
		if said, err := run(args...); err != nil {
			t.Fatalf("go %q: %v\n%.4000s", args, err, said)
		}
	}
	must("mod", "init", "clients")
	if said, err := run("mod", "download", generator+version, runtime); err != nil {
		t.Skipf("SKIPPED: no module proxy gives %s, so that no client was generated: %.300s", generator+version, said)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, document := range map[string]func() ([]byte, error){"public": httpapi.OpenAPI, "admin": adminapi.OpenAPI} {
		content, err := document()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(name+"/openapi.json", string(content))
		write(name+"/settings.yaml", "package: "+name+"\noutput: "+name+"/client.go\n"+settings)
		must("run", generator+"/cmd/oapi-codegen"+version, "-config", name+"/settings.yaml", name+"/openapi.json")
	}
	write("main.go", program)
	must("get", runtime)
	must("mod", "tidy")
	must("build", "-o", "clients", ".")
}

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

// TestTypeScriptTypesCompile makes types of each document, which tsc accepts. It runs where both programs are installed.
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
		if said, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%.4000s", name, args, err, said)
		}
	}
	for name, document := range map[string]func() ([]byte, error){"public": httpapi.OpenAPI, "admin": adminapi.OpenAPI} {
		content, err := document()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
		run("openapi-typescript", name+".json", "--output", name+".d.ts")
	}
	if err := os.WriteFile(filepath.Join(dir, "used.ts"), []byte(typed), 0o600); err != nil {
		t.Fatal(err)
	}
	run("tsc", "--strict", "--noEmit", "used.ts", "public.d.ts", "admin.d.ts")
}
