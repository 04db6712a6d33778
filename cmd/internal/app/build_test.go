package app

import (
	"runtime/debug"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/docs"
)

func TestBuildFromToolchain(t *testing.T) {
	t.Parallel()
	want := Build{docs.Version(), "c978e10ad4d15e29a5dec5bec9277ead110c2731", "2026-11-26T15:49:26Z"}
	got := buildOf(&debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: want.Commit},
		{Key: "vcs.time", Value: want.Date},
	}})
	if got != want || got.Version == "" {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestBuildInfoIsAMetric(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(buildInfo(Build{Version: "1.0.0", Commit: "c978e10", Date: "2026-11-26T15:49:26Z"}))
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("gathered %v: %v", families, err)
	}
	labels := map[string]string{}
	for _, label := range families[0].GetMetric()[0].GetLabel() {
		labels[label.GetName()] = label.GetValue()
	}
	if families[0].GetName() != "carillon_build_info" || labels["version"] != "1.0.0" || labels["commit"] != "c978e10" ||
		labels["goversion"] == "" {
		t.Errorf("%s%v", families[0].GetName(), labels)
	}
}
