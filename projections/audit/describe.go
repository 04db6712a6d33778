package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/aggregates/subscription"
	"carillon/eventstore/instant"
)

// Describe returns an entry of the record in words: the event's name, then the members of its detail. A subscription,
// which is on record as a part of its destination, is named by its id. Times are in the zone.
func Describe(stream, eventType string, detail jsontext.Value, zone *time.Location) string {
	name, _, _ := strings.Cut(eventType, ".v")
	text := strings.NewReplacer(".", " ", "-", " ").Replace(name)
	if id, is := strings.CutPrefix(stream, subscription.Aggregate.Category+"-"); is {
		text = strings.Replace(text, " ", " "+id+" ", 1)
	}
	var members map[string]any
	if json.Unmarshal(detail, &members) != nil { // the projector wrote it
		return text
	}
	var parts []string
	for _, member := range slices.Sorted(maps.Keys(members)) {
		if value := valueText(members[member], zone); value != "" {
			parts = append(parts, member+" "+value)
		}
	}
	if len(parts) == 0 {
		return text
	}
	return text + ": " + strings.Join(parts, ", ")
}

func valueText(value any, zone *time.Location) string {
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+" "+valueText(v[name], zone))
		}
		return strings.Join(parts, " ")
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = valueText(v[i], zone)
		}
		return strings.Join(parts, " ")
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return instant.Shown(at, zone)
		}
	}
	return fmt.Sprint(value)
}
