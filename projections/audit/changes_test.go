package audit_test

import (
	"strings"
	"testing"

	"carillon/projections/audit"
	"carillon/query"
)

func TestChangesNameHeaders(t *testing.T) {
	t.Parallel()
	none, unnamed := map[string]string(nil), map[string]string{}
	tests := []struct {
		before, after map[string]string
		want          string
	}{
		{none, map[string]string{"A": "1"}, "headers: A added"},
		{map[string]string{"A": "1", "B": "1", "C": "1"}, map[string]string{"A": "1", "B": "2", "D": "1"},
			"headers: B changed, D added, C removed"},
		{map[string]string{"A": "1"}, none, "headers: A removed"},
		{unnamed, map[string]string{"A": "1"}, "headers: changed"},
		{unnamed, none, "headers: none"},
		{none, unnamed, "headers: changed"},
	}
	for _, tt := range tests {
		before := query.AuditDetail{HasHeaders: tt.before != nil, Headers: tt.before}
		after := query.AuditDetail{HasHeaders: tt.after != nil, Headers: tt.after}
		if got := strings.Join(audit.Changes(before, after), "; "); got != tt.want {
			t.Errorf("%v to %v: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}
