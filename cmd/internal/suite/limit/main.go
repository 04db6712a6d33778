//go:build unix

// Command limit runs go test -json and prints what go test prints without -json. If a test runs for longer than a
// limit, all test binaries print their goroutines and end.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: limit DURATION go test -json [ARG ...]")
		os.Exit(2)
	}
	limit, err := time.ParseDuration(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(2)
	}
	err = run(limit, os.Args[2:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "limit:", err)
		os.Exit(1)
	}
}

func run(limit time.Duration, command []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // running what it is given is its purpose
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}       // go test and its binaries
	group := func(s syscall.Signal) error { return syscall.Kill(-cmd.Process.Pid, s) }
	cmd.Cancel = func() error { return group(syscall.SIGINT) }
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	events := make(chan event)
	decoded := make(chan error, 1)
	go func() {
		defer close(events)
		decoded <- decode(out, events)
	}()
	w := watch{limit: limit, out: os.Stdout, quit: func() { _ = group(syscall.SIGQUIT) }}
	w.follow(events)
	err = errors.Join(<-decoded, cmd.Wait())
	if w.late != "" { // repeated at the end, where CI shows it
		return errors.New(w.late)
	}
	return err
}

func decode(from io.Reader, to chan<- event) error {
	for d := json.NewDecoder(from); ; {
		var e event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			_, _ = io.Copy(io.Discard, from)
			return fmt.Errorf("output of go test -json: %w", err)
		}
		to <- e
	}
}
