package arch

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"carillon/eventstore/storetest/must"
)

var documentedAlert = regexp.MustCompile("(?m)^\\| `(Carillon[A-Za-z]+)` \\| .+ \\| .+ \\|$")

// The page for operators has a remedy for each alert, in the same order.
func TestAlertsHaveRemedies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(root, "deploy/alerts.yaml")
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Expr        string
				Annotations struct{ Summary string }
			}
		}
	}
	must.OK(t, yaml.Unmarshal([]byte(content(t, path)), &file))
	var alerts, documented []string
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
			if rule.Expr == "" || rule.Annotations.Summary == "" {
				t.Errorf("alert %q lacks its expression or summary", rule.Alert)
			}
		}
	}
	page := content(t, filepath.Join(root, "docs/operate/monitor.md"))
	for _, row := range documentedAlert.FindAllStringSubmatch(page, -1) {
		documented = append(documented, row[1])
	}
	if len(alerts) == 0 || !slices.Equal(alerts, documented) {
		t.Errorf("deploy/alerts.yaml has %q, docs/operate/monitor.md %q", alerts, documented)
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", path).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v: %s", err, out)
		}
	}
}
