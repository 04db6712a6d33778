package audit

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/destination"
	"carillon/query"
)

// Each setting of a destination reaches the detail of a change, its description, and the state at an instant.
func TestAuditShowsAllSettings(t *testing.T) {
	t.Parallel()
	headers := destination.Sealed{Data: []byte{1}, Parts: []destination.SealedPart{{Name: "X", Digest: []byte{1}}}}
	whole := destination.Settings{
		ExternalID: "crm",
		Name:       "CRM",
		URL:        "https://example.org/hook",
		Address:    destination.Sealed{Data: []byte{1}, Digest: []byte{1}}, // shown as the URL
		Headers:    headers,
		Plain: destination.Plain{
			DebounceWindowSeconds: 5,
			MaxRequestsPerSecond:  1.5,
			Traceparent:           true,
		},
	}
	detail := describeSettings(whole)
	state := query.AuditStateAt([]query.AuditEntry{{Detail: detail}}, time.Now())
	for _, setting := range reflect.VisibleFields(reflect.TypeOf(whole)) {
		name := setting.Name
		if reflect.ValueOf(whole).FieldByIndex(setting.Index).IsZero() {
			t.Errorf("give %s an example", name)
		}
		if name == "Address" || setting.Anonymous {
			continue
		}
		for place, of := range map[string]any{"detail": detail, "state": *state} {
			if shown := reflect.ValueOf(of).FieldByName(name); !shown.IsValid() || shown.IsZero() {
				t.Errorf("the %s does not show %s", place, name)
			}
		}
	}
	said := strings.Join(Changes(query.AuditDetail{}, detail), "\n")
	for _, d := range destination.Fields {
		if !strings.Contains(said, d.Label+": ") {
			t.Errorf("a change of %s is not described: %s", d.Label, said)
		}
	}
}
