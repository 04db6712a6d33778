package app

import (
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestBuildFromToolchain(t *testing.T) {
	t.Parallel()
	clone := []debug.BuildSetting{
		{Key: "vcs", Value: "git"},
		{Key: "vcs.revision", Value: "c978e10ad4d15e29a5dec5bec9277ead110c2731"},
		{Key: "vcs.time", Value: "2026-11-26T15:49:26Z"},
	}
	for name, test := range map[string]struct {
		version  string
		settings []debug.BuildSetting
		want     Build
	}{
		"release": {"v1.0.0", nil, Build{Version: "1.0.0"}},
		"clone": {"v1.0.1-0.20261126154926-c978e10ad4d1", clone,
			Build{"1.0.1-0.20261126154926-c978e10ad4d1", clone[1].Value, clone[2].Value}},
		"test":         {"(devel)", nil, Build{Version: "dev"}},
		"not recorded": {"", nil, Build{Version: "dev"}},
	} {
		got := buildOf(&debug.BuildInfo{Main: debug.Module{Version: test.version}, Settings: test.settings})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
