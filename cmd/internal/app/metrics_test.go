package app_test

import (
	"regexp"
	"strings"
	"testing"

	"carillon/cmd/internal/app"
	"carillon/eventstore/storetest/must"
	"carillon/projections/auditors"
)

var consumerLine = regexp.MustCompile(`(?m)^carillon_consumer_(lag_seconds|position)\{consumer="([^"]+)"\} (\S+)$`)

// Every consumer reports its position and catches up.
func TestMetrics_consumers(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	p.connect("crm", url, 0)
	p.publish()
	p.await(arrived)
	const processManagers = 5
	var metrics string
	there, current := map[string]bool{}, map[string]bool{}
	p.eventually("all consumers have caught up", func() bool { // each at some time: other tests publish as well
		metrics = p.metrics()
		for _, line := range consumerLine.FindAllStringSubmatch(metrics, -1) {
			there[line[2]] = true
			current[line[2]] = current[line[2]] || line[1] == "lag_seconds" && line[3] == "0"
		}
		for name := range there {
			if !current[name] {
				return false
			}
		}
		return len(there) == len(app.ReadModels())+processManagers
	})
	must.OK(t, p.operator().Verify(t.Context(), auditors.ReadModel.Name, 100))
	p.eventually("a verification is shown", func() bool {
		metrics = p.metrics()
		return strings.Contains(metrics, "\ncarillon_consumer_verified_timestamp_seconds{")
	})
}
