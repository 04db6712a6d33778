package app_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"carillon/cmd/internal/app"
)

const (
	getTimerSlack = 30
	timerSlack    = "1000000" // ns, of threads of a process that has begun again
)

// napsChild tells the process it is, and the slack of a thread that was made later.
func napsChild() {
	app.LetNapsBeLate()
	slacks := make(chan uintptr)
	go func() {
		slack, _, _ := syscall.Syscall(syscall.SYS_PRCTL, getTimerSlack, 0, 0)
		slacks <- slack
	}()
	variables := 0
	for _, variable := range os.Environ() {
		if strings.HasPrefix(variable, "CARILLON_BEGUN") {
			variables++
		}
	}
	fmt.Println(os.Getpid(), <-slacks, variables, os.Args[1:])
}

// A server that lets naps be late is the process that was started, with its arguments, and children of it know nothing of
// how that came. Where it was begun so already, and where beginning again changed nothing, it goes on.
func TestNapsMayBeLate(t *testing.T) {
	t.Parallel()
	own, _, _ := syscall.Syscall(syscall.SYS_PRCTL, getTimerSlack, 0, 0) // which children inherit
	for name, c := range map[string]struct{ env, slack string }{
		"begins again":                    {"", timerSlack},
		"has begun again without success": {"CARILLON_BEGUN_AGAIN=1", fmt.Sprint(own)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := exec.CommandContext(t.Context(), os.Args[0], "one", "two words")
			program.Env = append(os.Environ(), childRole+"=naps", c.env)
			out, err := program.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want := fmt.Sprintf("%d %s 0 [one two words]\n", program.Process.Pid, c.slack)
			if string(out) != want {
				t.Errorf("it says %q, want %q", out, want)
			}
		})
	}
}
