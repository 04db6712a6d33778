//go:build unix

package pgtest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// helperEnv makes TestHelper, in a separate process, end in the way it names.
const helperEnv = "CARILLON_PGTEST_HELPER"

// TestHelper isn't a test by itself: the others run it in a separate process.
func TestHelper(t *testing.T) {
	// Not parallel: started by another test, it is a separate program.
	how := os.Getenv(helperEnv)
	if how == "" {
		t.Skip("run by other tests")
	}
	pool := pgtest.Pool(t)
	var data string
	var pid int
	must.OK(t, pool.QueryRow(t.Context(), "SELECT current_setting('data_directory')").Scan(&data))
	must.Get(fmt.Sscan(firstLine(t, filepath.Join(data, "postmaster.pid")), &pid))(t)
	fmt.Printf("server %d %s\n", pid, data)
	switch how {
	case "panic":
		panic("as asked")
	case "fail":
		t.Fatal("as asked")
	case "wait":
		<-t.Context().Done()
	}
}

func firstLine(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}

// Whatever way a test binary ends, its server and its directory go with it.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"pass", "fail", "panic", "wait"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			self := must.Get(os.Executable())(t)
			cmd := exec.Command(self, "-test.run=^TestHelper$", "-test.v")
			// The helper must have a separate server.
			cmd.Env = append(os.Environ(), helperEnv+"="+how, "CARILLON_TEST_DATABASE_URL=")
			out := must.Get(cmd.StdoutPipe())(t)
			must.OK(t, cmd.Start())
			var pid int
			var data string
			for scan := bufio.NewScanner(out); scan.Scan(); {
				if n, _ := fmt.Sscanf(scan.Text(), "server %d %s", &pid, &data); n == 2 && how == "wait" {
					must.OK(t, cmd.Process.Kill())
				}
			}
			assert.Equal(t, cmd.Wait() == nil, how == "pass", "the helper ended with")
			must.True(t, data != "", "the helper had no server")
			must.Eventually(t, "the directory goes", func() bool {
				_, err := os.Stat(filepath.Dir(data))
				return os.IsNotExist(err)
			})
			// Its postmaster.pid, which the watching shell waits for, goes a little before the process.
			must.Eventually(t, "the server ends", func() bool { return !running(pid, data) })
		})
	}
}

// running looks at the command line of the process; a zombie has none.
func running(pid int, data string) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(line), data)
}

func TestLeakOptionsPassOverTheServer(t *testing.T) {
	// Not parallel: it looks at all goroutines of the process.
	pool := pgtest.Pool(t)
	must.OK(t, pool.Ping(t.Context()))
	pool.Close()
	must.OK(t, goleak.Find(pgtest.LeakOptions()...))
}

// The address of a run's server is part of what Go knows of a test's inputs.
func TestRunHasTheAddressOfTheOneBefore(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // root runs Postgres by another account
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir) // beside no other run
	serve := func() *pgtest.Run {
		t.Helper()
		run := must.Get(pgtest.Serve(t.Context()))(t)
		return run
	}
	stop := func(run *pgtest.Run) {
		t.Helper()
		assert.OK(t, run.Stop())
	}
	first := serve()
	beside := serve()
	assert.True(t, beside.URL != first.URL, "two have the address %s", first.URL)
	stop(first)
	next := serve()
	assert.True(t, next.URL == first.URL, "the address was %s, and is %s", first.URL, next.URL)
	stop(next)
	stop(beside)
}
