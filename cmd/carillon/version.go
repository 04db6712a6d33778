package main

import (
	"fmt"
	"io"
	"runtime"

	"carillon/cmd/internal/app"
)

type versionCommand struct {
	JSON bool `help:"Print JSON instead of text."`
}

// Run prints the version.
func (c *versionCommand) Run(t terminal) error {
	r := remote{JSON: c.JSON}
	return r.print(t.out, map[string]string{
		"version": app.Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH,
	}, func(w io.Writer) { row(w, versionText()) })
}

func versionText() string {
	return fmt.Sprintf("carillon %s (%s, %s/%s)", app.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
