package app

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/docs"
)

// Build describes this program.
type Build struct {
	Version string // of the changelog, as in "1.0.0"; "1.0.0-dev" before the release
	Commit  string // Optional.
	Date    string // of the commit, RFC 3339. Optional.
}

// ThisBuild describes the running program.
var ThisBuild = thisBuild()

// Version is the version of ThisBuild.
var Version = ThisBuild.Version

func thisBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info)
}

// buildOf adds commit and date, which the Go toolchain records if the program is built in a clone.
func buildOf(info *debug.BuildInfo) Build {
	build := Build{Version: docs.Version()}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			build.Commit = setting.Value
		case "vcs.time":
			build.Date = setting.Value
		}
	}
	return build
}

// buildInfo returns the metric carillon_build_info.
func buildInfo(build Build) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "carillon_build_info",
		Help: "1, with the version, commit and Go release of this process.",
		ConstLabels: prometheus.Labels{
			"version":   build.Version,
			"commit":    build.Commit,
			"date":      build.Date,
			"goversion": runtime.Version(),
		},
	})
	info.Set(1)
	return info
}
