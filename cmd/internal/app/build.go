package app

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Build describes this program as the Go toolchain recorded it.
type Build struct {
	Version string // as in "1.0.0"; "dev" if the toolchain recorded none
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

// buildOf reads version, commit and date from build information. Version control is recorded only if the program was
// built in a clone, and a version only if it was built in a clone or by go install.
func buildOf(info *debug.BuildInfo) Build {
	build := Build{Version: strings.TrimPrefix(info.Main.Version, "v")}
	if build.Version == "" || build.Version == "(devel)" {
		build.Version = "dev"
	}
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
