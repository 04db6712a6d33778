package main

import (
	"fmt"
	"runtime"

	"carillon/cmd/internal/app"
)

type versionCommand struct{}

// Run prints the version.
func (versionCommand) Run(t terminal) error {
	_, err := fmt.Fprintf(t.out, "carillon %s (%s, %s/%s)\n", app.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
