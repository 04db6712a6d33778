package app_test

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"carillon/cmd/internal/app"
)

var metricName = regexp.MustCompile(`carillon_(?:http|delivery|consumer|eventstore|collect)_[a-z_]+`)

var consumerLine = regexp.MustCompile(`(?m)^carillon_consumer_(lag_seconds|position)\{consumer="([^"]+)"\} (\S+)$`)

// And what pages tell operators to watch is there.
func TestMetricsSayHowFarEveryConsumerIsBehind(t *testing.T) {
	p := start(t, nil)
	_, arrived := p.subscribed(func(int) int { return http.StatusOK })
	p.publish()
	p.await(arrived)
	const processManagers = 4
	consumers := len(app.ReadModels()) + processManagers
	var metrics string
	p.eventually("all consumers have caught up", func() bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.app.AdminAddr().String()+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		metrics = string(text)
		there, current := map[string]bool{}, map[string]bool{}
		for _, line := range consumerLine.FindAllStringSubmatch(metrics, -1) {
			there[line[2]] = true
			current[line[2]] = current[line[2]] || line[1] == "lag_seconds" && line[3] == "0"
		}
		for name := range there {
			if !current[name] {
				t.Logf("%s is behind", name)
				return false
			}
		}
		return len(there) == consumers
	})
	for _, page := range []string{"../../../docs/operate/monitor.md", "../../../deploy/grafana-dashboard.json"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		names := metricName.FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s names no metric", page)
		}
		for _, name := range names {
			if !strings.Contains(metrics, "\n"+name) {
				t.Errorf("%s names %s, which is no metric", page, name)
			}
		}
	}
}
