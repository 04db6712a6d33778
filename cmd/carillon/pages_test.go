package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

const root = "../.."

var (
	variableName = regexp.MustCompile(`CARILLON_[A-Z0-9_]*[A-Z0-9]`)
	commandWords = regexp.MustCompile("(?m)(?:^|[`(\"] ?|\\$ )(?:bin/)?carillon ([a-z][^`\"\n#]*)")
	argumentWord = regexp.MustCompile(`^[A-Za-z<$]`)
	testVariable = regexp.MustCompile(`^CARILLON_(TEST|TORTURE)_`)
)

func model(t *testing.T) *kong.Application {
	t.Helper()
	parser := must.Get(kong.New(&commandLine{}, words()))(t)
	return parser.Model
}

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{
		"README.md",
		"Makefile",
		"docs/*.md",
		"docs/*/*.md",
		"deploy/*.yaml",
		"deploy/*.env",
		"deploy/*.service",
		".ci/tools/image/*.go",
	} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		must.True(t, err == nil && len(names) != 0, "%s: %v", pattern, err)
		for _, name := range names {
			text := must.Get(os.ReadFile(name))(t)
			texts[strings.TrimPrefix(name, root+"/")] = string(text)
		}
	}
	return texts
}

// A page names no unknown variable, and configure.md has each one of the server's with its default.
func TestPagesAndSettingsAgree(t *testing.T) {
	t.Parallel()
	app := model(t)
	texts := pages(t)
	for name, text := range texts {
		for _, variable := range unknownVariables(app, variableName.FindAllString(text, -1)) {
			assert.True(t, testVariable.MatchString(variable), "%s names %s, which is no setting", name, variable)
		}
	}
	for _, node := range app.Children {
		if node.Name != "serve" {
			continue
		}
		for _, flags := range node.AllFlags(true) {
			for _, flag := range flags {
				if len(flag.Envs) == 0 {
					continue
				}
				row := regexp.MustCompile("(?m)^\\|.*`" + flag.Envs[0] + "`.*$").FindString(texts["docs/operate/configure.md"])
				assert.True(t, row != "" && strings.Contains(row, flag.Default),
					"docs/operate/configure.md lacks %s, or its default %q", flag.Envs[0], flag.Default)
			}
		}
	}
}

// The commands on pages exist, with the flags that the pages use.
func TestPagesNameCommandsThatAreThere(t *testing.T) {
	t.Parallel()
	app := model(t)
	seen := 0
	for name, text := range pages(t) {
		text = strings.ReplaceAll(text, "\\\n", " ")
		for _, found := range commandWords.FindAllStringSubmatch(text, -1) {
			words := strings.Fields(found[1])
			node := app.Node
			for len(words) > 0 {
				i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == words[0] })
				if i < 0 {
					break
				}
				node, words = node.Children[i], words[1:]
			}
			if node == app.Node {
				t.Errorf("%s: carillon %s: there is no such command", name, found[1])
				continue
			}
			seen++
			if node.DefaultCmd != nil {
				node = node.DefaultCmd
			}
			if len(words) > 0 && len(node.Positional)+len(node.Children) == 0 && argumentWord.MatchString(words[0]) {
				t.Errorf("%s: carillon %s: it takes no argument", name, found[1])
			}
			for _, word := range words {
				flag, ok := strings.CutPrefix(word, "--")
				flag, _, _ = strings.Cut(strings.TrimRight(flag, "`.,;:)"), "=")
				if ok && !hasFlag(node, flag) {
					t.Errorf("%s: carillon %s: there is no flag --%s", name, found[1], flag)
				}
			}
		}
	}
	assert.True(t, seen >= 30, "only %d commands were found in the pages", seen)
}

func hasFlag(node *kong.Node, name string) bool {
	return slices.ContainsFunc(node.AllFlags(false), func(flags []*kong.Flag) bool {
		return slices.ContainsFunc(flags,
			func(flag *kong.Flag) bool { return flag.Name == name || slices.Contains(flag.Aliases, name) })
	})
}

// TestServiceUnitKeepsSettings names settings that the server needs under systemd.
func TestServiceUnitKeepsSettings(t *testing.T) {
	t.Parallel()
	unit := must.Get(os.ReadFile(filepath.Join(root, "deploy/carillon.service")))(t)
	for line, reason := range map[string]string{
		"KillMode=mixed":                        "a stop would end Postgres under the deliveries in flight",
		"StartLimitIntervalSec=0":               "systemd would give up after five starts",
		"ReadWritePaths=-/var/backups/carillon": "a running server could not write the backups of the documentation",
	} {
		assert.True(t, strings.Contains(string(unit), "\n"+line+"\n"), "%s is missing: %s", line, reason)
	}
}

// actAsCarillon is set in processes in which this test binary is the program: see TestMain.
const actAsCarillon = "CARILLON_TEST_ACT_AS_CARILLON"

// workplace is a folder with bin/carillon, in which commands of the README run against a server of their own.
type workplace struct {
	*testing.T
	dir string
	env []string
}

func newWorkplace(t *testing.T) workplace {
	t.Helper()
	dir, program := shortDir(t), os.Args[0]
	must.OK(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	script := "#!/bin/sh\n" + actAsCarillon + "=1 exec '" + program + "' \"$@\"\n"
	err := os.WriteFile(filepath.Join(dir, "bin/carillon"), []byte(script), 0o700) //nolint:gosec // it is to be run
	must.OK(t, err)
	return workplace{T: t, dir: dir, env: append(os.Environ(), "CARILLON_HTTP_ADDR=127.0.0.1:0",
		"CARILLON_ADMIN_ADDR=127.0.0.1:0",
		"CARILLON_DATABASE_URL="+pgtest.URL(t))}
}

func (w workplace) command(script string) *exec.Cmd {
	// A server is interrupted by a cleanup, which comes after the end of the context.
	ctx := context.WithoutCancel(w.Context())
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", script) //nolint:gosec // the README's
	cmd.Dir, cmd.Env = w.dir, w.env
	return cmd
}

func (w workplace) run(script string) string {
	w.Helper()
	out, err := w.command(script).CombinedOutput()
	must.True(w, err == nil, "%s: %v\n%s", script, err, out)
	return string(out)
}

// serve starts a server by a command and returns the addresses that it prints, as host and port, and what stops it.
func (w workplace) serve(script string) (api, admin string, stop func()) {
	w.Helper()
	cmd := w.command("exec " + script)
	out := must.Get(cmd.StdoutPipe())(w)
	var log strings.Builder
	cmd.Stderr = &log
	must.OK(w, cmd.Start())
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			w.Errorf("%s: %v\n%s", script, err, log.String())
		}
	})
	w.Cleanup(stop)
	address := regexp.MustCompile(`^ +(API|Admin) +http://(\S+)`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch found := address.FindStringSubmatch(lines.Text()); {
		case found == nil:
		case found[1] == "API":
			api = found[2]
		default:
			return api, found[2], stop
		}
	}
	w.Fatalf("%s printed no address\n%s", script, log.String())
	return "", "", stop
}

// recipe returns the last command of a target of the Makefile, with the default of its variable.
func recipe(t *testing.T, makefile, target string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + target + `:.*\n(?:\t.*\n)*\t(.*)\n`).FindStringSubmatch(makefile)
	must.True(t, found != nil, "the Makefile has no target %s", target)
	return strings.ReplaceAll(found[1], "$(DATA)", "./data")
}

// TestReadmeCommandsRun runs every block of commands of the README in its order.
func TestReadmeCommandsRun(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("the README needs curl")
	}
	texts := pages(t)
	readme, makefile := texts["README.md"], texts["Makefile"]
	for _, target := range regexp.MustCompile("`make ([a-z-]+)`").FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(makefile, "\n"+target[1]+":") {
			t.Errorf("the Makefile has no target %s", target[1])
		}
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(readme, -1)
	must.True(t, len(blocks) == 3 && blocks[0][1] == "make run\n" && blocks[1][1] == "make demo\n",
		"the README has the blocks %q", blocks)
	w := newWorkplace(t)
	api, admin, _ := w.serve(recipe(t, makefile, "run"))
	w.env = append(w.env, "CARILLON_HTTP_ADDR="+api, "CARILLON_ADMIN_ADDR="+admin)
	shown := w.run(recipe(t, makefile, "demo"))
	for _, step := range regexp.MustCompile(`(?m)^ {2}(\d {2}[^:\n]*):`).FindAllStringSubmatch(readme, -1) {
		if !strings.Contains(shown, step[1]) && !strings.HasPrefix(step[1], "6") { // the sixth begins with an id
			t.Errorf("the demo shows no %q:\n%s", step[1], shown)
		}
	}
	assert.Equal(t, strings.Count(shown, "signature verified"), 3, "the demo verified … signatures: %s", shown)
	w.answers(w.run(strings.ReplaceAll(blocks[2][1], "127.0.0.1:8080", api)))
}

// answers checks the output of the block by hand: a success for each call, and one event that was published.
func (w workplace) answers(output string) {
	w.Helper()
	calls := 0
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		calls++
		var answer struct {
			Success bool `json:"success"`
		}
		err := json.Unmarshal([]byte(line), &answer)
		assert.True(w, err == nil && answer.Success, "a call was answered %s: %v", line, err)
	}
	assert.True(w, calls == 5 && strings.Contains(output, "published 1 events") && strings.Contains(output, "\nready\n"),
		"%d calls were answered:\n%s", calls, output)
}
