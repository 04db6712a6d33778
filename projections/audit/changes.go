package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Changes describes the settings of a destination that differ, a text each.
func Changes(before, after Detail) []string {
	var parts []string
	if before.Name != after.Name {
		parts = append(parts, "name: "+strconv.Quote(after.Name))
	}
	if before.URL != after.URL {
		parts = append(parts, "url: "+after.URL)
	}
	if before.ExternalID != after.ExternalID {
		parts = append(parts, "externalId: "+strconv.Quote(after.ExternalID))
	}
	if before.DebounceWindowSeconds != after.DebounceWindowSeconds {
		parts = append(parts, fmt.Sprintf("debounce: %ds", after.DebounceWindowSeconds))
	}
	if before.MaxRequestsPerSecond != after.MaxRequestsPerSecond {
		parts = append(parts, "limit: "+LimitText(after.MaxRequestsPerSecond))
	}
	if before.Traceparent != after.Traceparent {
		parts = append(parts, fmt.Sprintf("traceparent: %t", after.Traceparent))
	}
	if headers := headerChanges(before, after); headers != "" {
		parts = append(parts, "headers: "+headers)
	} else if len(parts) == 0 {
		parts = append(parts, "headers: changed") // their names were not recorded
	}
	return parts
}

// headerChanges names the headers that were added, removed and changed. It is empty if none was, or if that is not
// known.
func headerChanges(before, after Detail) string {
	if !after.HasHeaders && before.HasHeaders && len(before.Headers) == 0 {
		return "none"
	}
	if before.HasHeaders && len(before.Headers) == 0 || after.HasHeaders && len(after.Headers) == 0 {
		if before.HasHeaders != after.HasHeaders {
			return "changed"
		}
		return ""
	}
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after.Headers)) {
		switch digest, known := before.Headers[name]; {
		case !known:
			changes = append(changes, name+" added")
		case digest != after.Headers[name]:
			changes = append(changes, name+" changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before.Headers)) {
		if _, stays := after.Headers[name]; !stays {
			changes = append(changes, name+" removed")
		}
	}
	return strings.Join(changes, ", ")
}

// LimitText describes a limit of requests per second; 0 is none.
func LimitText(perSecond float64) string {
	if perSecond == 0 {
		return "none"
	}
	return fmt.Sprintf("%g requests/s", perSecond)
}
