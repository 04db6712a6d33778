package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"carillon/cmd/internal/app"
)

const platform = runtime.GOOS + "/" + runtime.GOARCH

type versionCommand struct {
	printing
}

// Run prints the version.
func (c *versionCommand) Run(t terminal) error {
	return c.print(t.out, map[string]string{
		"version":  app.ThisBuild.Version,
		"commit":   app.ThisBuild.Commit,
		"date":     app.ThisBuild.Date,
		"go":       runtime.Version(),
		"platform": platform,
	}, func(w io.Writer) { row(w, versionText()) })
}

func versionText() string {
	return describe(app.ThisBuild)
}

// describe returns a build in one line. Commit and date are left out if they are unknown.
func describe(build app.Build) string {
	details := []string{runtime.Version(), platform}
	if build.Commit != "" {
		details = append([]string{"commit " + build.Commit[:min(len(build.Commit), 12)], build.Date}, details...)
	}
	return fmt.Sprintf("carillon %s (%s)", build.Version, strings.Join(details, ", "))
}
