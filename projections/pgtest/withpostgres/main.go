//go:build unix

// Command withpostgres runs a command beside a new Postgres server, which the tests that the command runs share by
// CARILLON_TEST_DATABASE_URL. The server and its directory go when the command ends, however it does. If the variable
// names a server already, that is used.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"carillon/projections/pgtest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withpostgres COMMAND [ARG ...]")
		os.Exit(2)
	}
	err := run(os.Args[1:])
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
		os.Exit(1)
	}
}

func run(command []string) (err error) {
	// The command gets these signals from the terminal, too; it is waited for.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // running what it is given is its purpose
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if os.Getenv(pgtest.URLVariable) == "" {
		server, err := pgtest.Serve(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		cmd.Env = append(os.Environ(), pgtest.URLVariable+"="+server.URL)
	}
	return cmd.Run()
}
